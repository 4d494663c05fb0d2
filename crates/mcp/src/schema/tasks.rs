//! Tasks: the extension `io.modelcontextprotocol/tasks` of MCP revision 2026-07-28. The tasks of MCP revision
//! 2025-11-25 are different.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{InputRequests, JsonObject, MetaObject};
use crate::json_rpc::Error;

/// The name of the tasks extension in the capabilities of clients and servers. The extension has no
/// settings.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The summary of a task.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The status.
    pub status: TaskStatus,
    /// The members that all tasks have.
    #[serde(flatten)]
    pub state: WorkingTask,
}

/// The states of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// The task is running.
    Working,
    /// The task waits for answers of the client.
    InputRequired,
    /// The task has a result.
    Completed,
    /// The task failed with a JSON-RPC error.
    Failed,
    /// The task was canceled.
    Cancelled,
}

/// A task with the details of its status.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum DetailedTask {
    /// The task is running.
    Working(WorkingTask),
    /// The task waits for answers of the client.
    InputRequired(InputRequiredTask),
    /// The task has a result.
    Completed(CompletedTask),
    /// The task failed with a JSON-RPC error.
    Failed(FailedTask),
    /// The task was canceled.
    Cancelled(CancelledTask),
}

/// A running task. The type also contains the members that tasks in all other states have.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkingTask {
    /// The id of the task, which clients cannot guess.
    pub task_id: String,
    /// A description of the current step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// Time at which the server created the task, in the format of ISO 8601.
    pub created_at: String,
    /// Time of the last change, in the format of ISO 8601.
    pub last_updated_at: String,
    /// Time in milliseconds from the creation of the task until the server may delete it. `None` (`null`
    /// in JSON) means that the server sets no limit.
    pub ttl_ms: Option<u64>,
    /// Suggested time between two requests for the state of the task, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_interval_ms: Option<u64>,
}

/// A canceled task.
pub type CancelledTask = WorkingTask;

/// A task that waits for answers of the client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputRequiredTask {
    /// The members that all tasks have.
    #[serde(flatten)]
    pub task: WorkingTask,
    /// The elicitation, sampling and roots requests of the task, by name. A task never uses a name twice.
    pub input_requests: InputRequests,
}

/// A task with a result.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CompletedTask {
    /// The members that all tasks have.
    #[serde(flatten)]
    pub task: WorkingTask,
    /// The result of the request that the server ran as a task.
    pub result: JsonObject,
}

/// A task with an error.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FailedTask {
    /// The members that all tasks have.
    #[serde(flatten)]
    pub task: WorkingTask,
    /// The error of the request that the server ran as a task.
    pub error: Error,
}

/// Result of a request that the server runs as a task.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CreateTaskResult {
    /// The task.
    #[serde(flatten)]
    pub task: Task,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// The current state of a task.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GetTaskResult {
    /// The task.
    #[serde(flatten)]
    pub task: DetailedTask,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// Notification of the current state of a task for clients that subscribed to the task.
pub type TaskStatusNotificationParams = GetTaskResult;

/// The tasks of a subscription: members of a [`SubscriptionFilter`](super::SubscriptionFilter).
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskSubscriptionNotifications {
    /// The ids of the tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_ids: Vec<String>,
}

/// The tasks for which the server agreed to send notifications on a subscription.
pub type TaskSubscriptionAcknowledgedNotifications = TaskSubscriptionNotifications;
