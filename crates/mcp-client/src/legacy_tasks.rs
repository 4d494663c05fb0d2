//! Tool calls that become tasks in MCP revision 2025-11-25, where tasks are experimental. The client decides
//! whether a call becomes a task. To fetch the result, the client sends a request that the server answers
//! when the task ends. If a task needs input from the client, the server sends separate requests.

use serde::Deserialize;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::{
    CallToolResult, CompletedTask, DetailedTask, FailedTask, InputRequests, InputRequiredTask, JsonObject,
    Task, TaskStatus, TaskSupport, WorkingTask, methods,
};

use super::client::McpClient;
use super::error::McpClientError;
use super::reading::Answer;
use super::task_polls::{CancelOnDrop, Polls, TaskParams, perform};

/// The answer to a tool call that has become a task.
#[derive(Deserialize)]
struct CreateTaskResult {
    task: LegacyTask,
}

/// The state of a task, as MCP revision 2025-11-25 defines it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyTask {
    task_id: String,
    status: TaskStatus,
    #[serde(default)]
    status_message: Option<String>,
    created_at: String,
    last_updated_at: String,
    ttl: Option<u64>,
    #[serde(default)]
    poll_interval: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListTasksResult {
    tasks: Vec<LegacyTask>,
    #[serde(default)]
    next_cursor: Option<String>,
}

impl From<LegacyTask> for Task {
    fn from(task: LegacyTask) -> Self {
        let state = WorkingTask {
            task_id: task.task_id,
            status_message: task.status_message,
            created_at: task.created_at,
            last_updated_at: task.last_updated_at,
            ttl_ms: task.ttl,
            poll_interval_ms: task.poll_interval,
        };
        Self { status: task.status, state }
    }
}

/// Returns the task in `answer`, or `None` if the tool call has not become a task.
pub(super) fn created(answer: &Answer) -> Option<Task> {
    let may_be = answer.get().contains("\"task\"") && answer.get().contains("\"taskId\"");
    let created = may_be.then(|| serde_json::from_str(answer.get()).ok())?;
    created.map(|CreateTaskResult { task }| task.into())
}

/// Returns all tasks of this client that the server knows. Only MCP revision 2025-11-25 has such a list.
///
/// # Errors
/// See [`McpClientError`].
pub(super) async fn list(client: &McpClient) -> Result<Vec<Task>, McpClientError> {
    client
        .list(methods::TASKS_LIST, |page: ListTasksResult| {
            (page.tasks.into_iter().map(Task::from).collect(), page.next_cursor)
        })
        .await
}

/// Returns `true` if the client must request a task for a call of `tool`: the tool requires a task, or it
/// permits a task and `is_wanted` is set. Lists the tools first if the client has not listed them yet.
pub(super) async fn becomes_task(
    client: &McpClient,
    tool: &str,
    is_wanted: bool,
) -> Result<bool, McpClientError> {
    let conversation = &client.conversation;
    if !conversation.options.capabilities.has_tasks() {
        return Ok(false);
    }
    if !conversation.tools.are_listed() {
        // Boxed to keep the futures of calls without tasks small.
        Box::pin(client.list_tools()).await?;
    }
    Ok(match conversation.tools.task_support(tool) {
        TaskSupport::Required => true,
        TaskSupport::Optional => is_wanted,
        TaskSupport::Forbidden => false,
    })
}

/// Returns the state of a task, with the result if the task has ended. The state does not contain requests
/// for input, because the server sends these requests only while a client waits for the result.
pub(super) async fn detailed(client: &McpClient, id: &str) -> Result<DetailedTask, McpClientError> {
    let Task { status, state: task } = look(client, id).await?;
    Ok(match status {
        TaskStatus::Working => DetailedTask::Working(task),
        TaskStatus::Cancelled => DetailedTask::Cancelled(task),
        TaskStatus::InputRequired => {
            DetailedTask::InputRequired(InputRequiredTask { task, input_requests: InputRequests::new() })
        }
        TaskStatus::Completed | TaskStatus::Failed => match result::<JsonObject>(client, id).await {
            // The server may also return a result for a task that has failed.
            Ok(_) if status == TaskStatus::Failed => {
                let reason = task.status_message.clone();
                let error = Error::internal(reason.unwrap_or_else(|| "the call has failed".to_owned()));
                DetailedTask::Failed(FailedTask { task, error })
            }
            Ok(result) => DetailedTask::Completed(CompletedTask { task, result }),
            Err(McpClientError::Server(error)) => DetailedTask::Failed(FailedTask { task, error }),
            Err(error) => return Err(error),
        },
    })
}

/// Waits for the result of a task. If `is_given_up` is set, dropping the future cancels the task.
pub(super) async fn wait(
    client: &McpClient,
    id: &str,
    is_given_up: bool,
) -> Result<CallToolResult, McpClientError> {
    let mut guard = CancelOnDrop { client, id: is_given_up.then_some(id) };
    let mut polls = Polls::new(client);
    loop {
        match look(client, id).await {
            Err(error) => polls.tolerate(error)?,
            Ok(Task { status: TaskStatus::Working, state }) => polls.paces(&state),
            Ok(Task { status: TaskStatus::Cancelled, .. }) => {
                guard.id = None;
                return Err(McpClientError::TaskCancelled);
            }
            Ok(Task { state, .. }) => {
                polls.paces(&state);
                match result(client, id).await {
                    Err(error) if !matches!(error, McpClientError::Server(_)) => polls.tolerate(error)?,
                    outcome => {
                        guard.id = None;
                        return outcome;
                    }
                }
            }
        }
        polls.pause().await?;
    }
}

async fn look(client: &McpClient, id: &str) -> Result<Task, McpClientError> {
    let task: LegacyTask = perform(client, methods::TASKS_GET, id, TaskParams { task_id: id }).await?;
    Ok(task.into())
}

/// Returns the result of a task. The server answers when the task ends.
async fn result<R: serde::de::DeserializeOwned>(client: &McpClient, id: &str) -> Result<R, McpClientError> {
    perform(client, methods::TASKS_RESULT, id, TaskParams { task_id: id }).await
}
