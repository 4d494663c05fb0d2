//! Tool calls that become tasks. This module implements the extension `io.modelcontextprotocol/tasks` of MCP
//! revision 2026-07-28, and the parts that MCP revision 2025-11-25 shares with this extension.

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
use super::task_polls::{self, CancelOnDrop, Polls, TaskParams};

/// The outcome of a tool call.
#[derive(Clone, PartialEq, Debug)]
pub enum ToolOutcome {
    /// The call has completed with this result.
    Result(CallToolResult),
    /// The call has become a task, which is still in progress.
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

/// Returns the state of a task.
///
/// # Errors
/// See [`McpClientError`].
pub(super) async fn get(client: &McpClient, id: &str) -> Result<DetailedTask, McpClientError> {
    if client.negotiated().await?.era() == Era::Legacy {
        return legacy_tasks::detailed(client, id).await;
    }
    let result: GetTaskResult =
        task_polls::perform(client, methods::TASKS_GET, id, TaskParams { task_id: id }).await?;
    Ok(result.task)
}

/// Answers the elicitation, sampling or roots requests of a task (MCP revision 2026-07-28). The key of each
/// answer is the name of its request. In earlier revisions, the server sends these requests as separate
/// messages.
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

/// Asks the server to cancel a task. The task may still complete.
///
/// # Errors
/// See [`McpClientError`].
pub(super) async fn cancel(client: &McpClient, id: &str) -> Result<(), McpClientError> {
    let params = TaskParams { task_id: id };
    task_polls::perform::<serde::de::IgnoredAny, _>(client, methods::TASKS_CANCEL, id, params).await.map(drop)
}

/// Waits for the result of a task. If `is_given_up` is set, dropping the future cancels the task.
pub(super) async fn wait(
    client: &McpClient,
    id: &str,
    is_given_up: bool,
) -> Result<CallToolResult, McpClientError> {
    if client.negotiated().await?.era() == Era::Legacy {
        return legacy_tasks::wait(client, id, is_given_up).await;
    }
    let mut guard = CancelOnDrop { client, id: is_given_up.then_some(id) };
    let mut polls = Polls::new(client);
    let mut answers = Answers::default();
    loop {
        match look(client, id, &mut answers).await {
            Err(error) => polls.tolerate(error)?,
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

/// Requests the state of a task, answers the elicitation, sampling and roots requests in the state, and
/// returns the state.
async fn look(client: &McpClient, id: &str, answers: &mut Answers) -> Result<DetailedTask, McpClientError> {
    let task = get(client, id).await?;
    if let DetailedTask::InputRequired(asking) = &task {
        answer(client, id, &asking.input_requests, answers).await?;
    }
    Ok(task)
}

/// Answers the new elicitation, sampling and roots requests of a task. A task never uses the same name for
/// two requests.
async fn answer(
    client: &McpClient,
    id: &str,
    questions: &InputRequests,
    answers: &mut Answers,
) -> Result<(), McpClientError> {
    for (name, question) in questions {
        // The server may repeat a request until it has received the answer.
        if answers.asked.contains(name) {
            continue;
        }
        if answers.asked.len() == INPUT_REQUESTS_MAX {
            return Err(McpClientError::TooManyRounds);
        }
        answers.asked.insert(name.clone());
        let answer = client.conversation.incoming.handlers.answer(question.clone()).await;
        answers.unsent.insert(name.clone(), answer.map_err(McpClientError::InputRequestFailed)?);
    }
    // If the state no longer contains a request, the server has received the answer, even if the client got
    // an error for its `tasks/update`.
    answers.unsent.retain(|name, _| questions.contains_key(name));
    if !answers.unsent.is_empty() {
        update(client, id, answers.unsent.clone()).await?;
        answers.unsent.clear();
    }
    Ok(())
}

/// The answers to the elicitation, sampling and roots requests of a task.
#[derive(Default)]
struct Answers {
    asked: BTreeSet<String>,
    /// Answers that the server has not confirmed yet.
    unsent: InputResponses,
}

/// Maximum number of elicitation, sampling and roots requests of one task.
const INPUT_REQUESTS_MAX: usize = 100;
