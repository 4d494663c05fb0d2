//! Calls of tools that become tasks: the extension `io.modelcontextprotocol/tasks` to 2026-07-28, and what is common to it and
//! the tasks of 2025-11-25.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thruway_mcp::modern::{ResultType, result_type};
use thruway_mcp::schema::{
    CallToolResult, CreateTaskResult, DetailedTask, GetTaskResult, InputRequests, InputResponses, Task,
    WorkingTask, methods,
};
use tokio::time::{Instant, sleep};

use super::McpClient;
use super::deadline::later;
use super::eras::{Call, Era};
use super::error::McpClientError;
use super::incoming::Answer;
use super::legacy_tasks;
use super::reading::Read;

/// What calling a tool has come to so far.
#[derive(Clone, PartialEq, Debug)]
pub enum ToolOutcome {
    /// A result.
    Result(CallToolResult),
    /// A task that goes on.
    Task(Task),
}

impl ToolOutcome {
    pub(super) fn of(answer: Read<CallToolResult>) -> Result<Self, McpClientError> {
        match answer {
            Read::Complete(result) => Ok(Self::Result(result)),
            Read::Raw(answer) => Self::parse(&answer),
        }
    }

    fn parse(answer: &Answer) -> Result<Self, McpClientError> {
        let invalid = |error| McpClientError::result_invalid(&error);
        if let Some(task) = legacy_tasks::created(answer) {
            return Ok(Self::Task(task));
        }
        if answer.get().contains("\"task\"") && result_type(answer) == Ok(ResultType::Task) {
            let created: CreateTaskResult = serde_json::from_str(answer.get()).map_err(invalid)?;
            return Ok(Self::Task(created.task));
        }
        serde_json::from_str(answer.get()).map(Self::Result).map_err(invalid)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskParams<'a> {
    pub(super) task_id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UpdateTaskParams<'a> {
    task_id: &'a str,
    input_responses: InputResponses,
}

impl McpClient {
    /// How a task stands.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn get_task(&self, id: &str) -> Result<DetailedTask, McpClientError> {
        if self.spoken().await?.era() == Era::Legacy {
            return self.legacy_detailed_task(id).await;
        }
        let result: GetTaskResult = self.of_task(methods::TASKS_GET, id, TaskParams { task_id: id }).await?;
        Ok(result.task)
    }

    /// Answers what a task has asked, each answer under the name of its question (2026-07-28): before, tasks asked as any
    /// request did.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn update_task(&self, id: &str, answers: InputResponses) -> Result<(), McpClientError> {
        let params = UpdateTaskParams { task_id: id, input_responses: answers };
        self.of_task::<serde::de::IgnoredAny, _>(methods::TASKS_UPDATE, id, params).await.map(drop)
    }

    /// Gives a task up. It may come to its end all the same.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn cancel_task(&self, id: &str) -> Result<(), McpClientError> {
        let params = TaskParams { task_id: id };
        self.of_task::<serde::de::IgnoredAny, _>(methods::TASKS_CANCEL, id, params).await.map(drop)
    }

    /// Waits for the result of a task, and answers what it asks. It is asked for as often as the server wants, and goes on if the
    /// server does not answer for a while.
    ///
    /// # Errors
    /// See [`McpClientError`]; the task has failed, or was given up.
    ///
    /// # Cancel safety
    /// The task goes on if the future is dropped.
    pub async fn wait_for_task(&self, id: &str) -> Result<CallToolResult, McpClientError> {
        self.await_task(id, false).await
    }

    /// The same; if `is_given_up`, the task is when nobody waits for it any more.
    pub(super) async fn await_task(
        &self,
        id: &str,
        is_given_up: bool,
    ) -> Result<CallToolResult, McpClientError> {
        if self.spoken().await?.era() == Era::Legacy {
            return self.await_legacy_task(id, is_given_up).await;
        }
        let mut guard = GivesUp { client: self, id: is_given_up.then_some(id) };
        let mut polls = Polls::new(self);
        let mut answers = Answers::default();
        loop {
            match self.look_at_task(id, &mut answers).await {
                Err(error) => polls.forgive(error)?,
                Ok(DetailedTask::Working(task)) => polls.paces(&task),
                Ok(DetailedTask::InputRequired(asking)) => polls.paces(&asking.task),
                Ok(DetailedTask::Completed(completed)) => {
                    guard.id = None;
                    let result = serde_json::Value::Object(completed.result);
                    let result = CallToolResult::deserialize(result);
                    return result.map_err(|error| McpClientError::result_invalid(&error));
                }
                Ok(DetailedTask::Failed(failed)) => {
                    guard.id = None;
                    return Err(McpClientError::Server(failed.error));
                }
                Ok(DetailedTask::Cancelled(_)) => {
                    guard.id = None;
                    return Err(McpClientError::TaskCancelled);
                }
            }
            polls.pause().await?;
        }
    }

    /// How a task stands, with what it asks answered.
    async fn look_at_task(&self, id: &str, answers: &mut Answers) -> Result<DetailedTask, McpClientError> {
        let task = self.get_task(id).await?;
        if let DetailedTask::InputRequired(asking) = &task {
            self.answer_task(id, &asking.input_requests, answers).await?;
        }
        Ok(task)
    }

    /// Answers what was not answered before: no name is used for two questions of a task.
    async fn answer_task(
        &self,
        id: &str,
        questions: &InputRequests,
        answers: &mut Answers,
    ) -> Result<(), McpClientError> {
        for (name, question) in questions {
            if answers.asked.len() >= QUESTIONS_MAX {
                return Err(McpClientError::TooManyRounds);
            }
            if answers.asked.insert(name.clone()) {
                let answer = self.conversation.incoming.handlers.answer(question.clone()).await;
                answers.untold.insert(name.clone(), answer.map_err(McpClientError::QuestionFailed)?);
            }
        }
        // What is not asked any more has been told, although nobody has said so.
        answers.untold.retain(|name, _| questions.contains_key(name));
        if !answers.untold.is_empty() {
            self.update_task(id, answers.untold.clone()).await?;
            answers.untold.clear();
        }
        Ok(())
    }

    pub(super) async fn of_task<R: serde::de::DeserializeOwned, P: Serialize>(
        &self,
        method: &'static str,
        id: &str,
        params: P,
    ) -> Result<R, McpClientError> {
        self.perform(&Call { name: Some(id), ..self.call(method, params) }).await
    }
}

/// What was answered to a task.
#[derive(Default)]
struct Answers {
    asked: BTreeSet<String>,
    /// What the server is still to be told.
    untold: InputResponses,
}

/// When a task is asked for: again and again, until there is no more time.
pub(super) struct Polls<'a> {
    client: &'a McpClient,
    latest: Instant,
    /// How often the server wants to be asked.
    pace: Duration,
    /// How long it is spared because it has failed: longer and longer.
    rest: Duration,
    /// Why nothing was learnt the last time.
    failure: Option<McpClientError>,
}

impl<'a> Polls<'a> {
    pub(crate) fn new(client: &'a McpClient) -> Self {
        let latest = later(Instant::now(), client.options.patience.timeout_max);
        Self { client, latest, pace: Duration::ZERO, rest: Duration::ZERO, failure: None }
    }

    /// The task goes on, and says how often it is to be asked for.
    pub(super) fn paces(&mut self, task: &WorkingTask) {
        self.pace = task.poll_interval_ms.map_or(PAUSE, Duration::from_millis).clamp(PAUSE_MIN, PAUSE_MAX);
        (self.rest, self.failure) = (Duration::ZERO, None);
    }

    /// The task goes on although nothing was learnt of it, if the server may answer the next time.
    ///
    /// # Errors
    /// It will not.
    pub(super) fn forgive(&mut self, error: McpClientError) -> Result<(), McpClientError> {
        if !error.is_temporary() || self.client.is_closed() {
            return Err(error);
        }
        self.rest = (self.rest * 2).clamp(REST_MIN, PAUSE_MAX);
        self.failure = Some(error);
        Ok(())
    }

    /// Waits until the task is to be asked for again.
    ///
    /// # Errors
    /// There is no more time: why nothing was learnt the last time, if that is so.
    pub(super) async fn pause(&mut self) -> Result<(), McpClientError> {
        sleep(self.pace.max(self.rest)).await;
        if Instant::now() < self.latest {
            return Ok(());
        }
        Err(self.failure.take().unwrap_or(McpClientError::TimedOut))
    }
}

/// Gives a task up when it is dropped.
pub(super) struct GivesUp<'a> {
    pub(super) client: &'a McpClient,
    pub(super) id: Option<&'a str>,
}

impl Drop for GivesUp<'_> {
    /// There is no other place that learns that nobody waits any more.
    fn drop(&mut self) {
        let Some(id) = self.id.map(str::to_owned) else { return };
        let client = self.client.clone();
        // A server that is gone does nothing either.
        self.client.conversation.spawn(async move { client.cancel_task(&id).await });
    }
}

/// How often a task is asked for of which it is not said.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(30);
const REST_MIN: Duration = Duration::from_millis(100);

/// How much one task may ask.
const QUESTIONS_MAX: usize = 100;
