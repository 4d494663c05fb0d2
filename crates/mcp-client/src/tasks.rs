//! Calls of tools that become tasks: the extension `io.modelcontextprotocol/tasks` to 2026-07-28, and what is
//! common to it and the tasks of 2025-11-25.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use thruway_mcp::modern::{ResultType, result_type};
use thruway_mcp::schema::{
    CallToolResult, CreateTaskResult, DetailedTask, GetTaskResult, InputRequests, InputResponses, Task,
    methods,
};

use super::client::McpClient;
use super::eras::Era;
use super::error::McpClientError;
use super::legacy_tasks;
use super::reading::{Answer, Read};
use super::task_polls::{self, GivesUp, Polls, TaskParams};

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
struct UpdateTaskParams<'a> {
    task_id: &'a str,
    input_responses: InputResponses,
}

/// How a task stands.
///
/// # Errors
/// See [`McpClientError`].
pub(super) async fn get(client: &McpClient, id: &str) -> Result<DetailedTask, McpClientError> {
    if client.spoken().await?.era() == Era::Legacy {
        return legacy_tasks::detailed(client, id).await;
    }
    let result: GetTaskResult =
        task_polls::perform(client, methods::TASKS_GET, id, TaskParams { task_id: id }).await?;
    Ok(result.task)
}

/// Answers what a task has asked, each answer under the name of its question (2026-07-28): before, tasks
/// asked as any request did.
///
/// # Errors
/// See [`McpClientError`].
pub(super) async fn update(
    client: &McpClient,
    id: &str,
    answers: InputResponses,
) -> Result<(), McpClientError> {
    let params = UpdateTaskParams { task_id: id, input_responses: answers };
    task_polls::perform::<serde::de::IgnoredAny, _>(client, methods::TASKS_UPDATE, id, params).await.map(drop)
}

/// Gives a task up. It may come to its end all the same.
///
/// # Errors
/// See [`McpClientError`].
pub(super) async fn cancel(client: &McpClient, id: &str) -> Result<(), McpClientError> {
    let params = TaskParams { task_id: id };
    task_polls::perform::<serde::de::IgnoredAny, _>(client, methods::TASKS_CANCEL, id, params).await.map(drop)
}

/// Waits for the result of a task; if `is_given_up`, the task is canceled when nobody waits for it any more.
pub(super) async fn wait(
    client: &McpClient,
    id: &str,
    is_given_up: bool,
) -> Result<CallToolResult, McpClientError> {
    if client.spoken().await?.era() == Era::Legacy {
        return legacy_tasks::wait(client, id, is_given_up).await;
    }
    let mut guard = GivesUp { client, id: is_given_up.then_some(id) };
    let mut polls = Polls::new(client);
    let mut answers = Answers::default();
    loop {
        match look(client, id, &mut answers).await {
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
async fn look(client: &McpClient, id: &str, answers: &mut Answers) -> Result<DetailedTask, McpClientError> {
    let task = get(client, id).await?;
    if let DetailedTask::InputRequired(asking) = &task {
        answer(client, id, &asking.input_requests, answers).await?;
    }
    Ok(task)
}

/// Answers what was not answered before: no name is used for two questions of a task.
async fn answer(
    client: &McpClient,
    id: &str,
    questions: &InputRequests,
    answers: &mut Answers,
) -> Result<(), McpClientError> {
    for (name, question) in questions {
        if answers.asked.len() >= QUESTIONS_MAX {
            return Err(McpClientError::TooManyRounds);
        }
        if answers.asked.insert(name.clone()) {
            let answer = client.conversation.incoming.handlers.answer(question.clone()).await;
            answers.untold.insert(name.clone(), answer.map_err(McpClientError::QuestionFailed)?);
        }
    }
    // What is not asked any more has been told, although nobody has said so.
    answers.untold.retain(|name, _| questions.contains_key(name));
    if !answers.untold.is_empty() {
        update(client, id, answers.untold.clone()).await?;
        answers.untold.clear();
    }
    Ok(())
}

/// What was answered to a task.
#[derive(Default)]
struct Answers {
    asked: BTreeSet<String>,
    /// What the server is still to be told.
    untold: InputResponses,
}

/// How much one task may ask.
const QUESTIONS_MAX: usize = 100;
