//! Tasks: the extension `io.modelcontextprotocol/tasks` to 2026-07-28. The tasks of 2025-11-25 are others.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{InputRequests, JsonObject, MetaObject};
use crate::json_rpc::Error;

/// The name of the extension, among the capabilities of either side. It has no settings.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// How a task stands, in short.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Task {
    /// What the state it is in is called.
    pub status: TaskStatus,
    /// What is known of it in any state.
    #[serde(flatten)]
    pub state: WorkingTask,
}

/// The states of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// It goes on.
    Working,
    /// The client is to answer first.
    InputRequired,
    /// There is a result.
    Completed,
    /// There is an error of JSON-RPC.
    Failed,
    /// It was given up.
    Cancelled,
}

/// How a task stands, with what belongs to its state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum DetailedTask {
    /// It goes on.
    Working(WorkingTask),
    /// The client is to answer first.
    InputRequired(InputRequiredTask),
    /// There is a result.
    Completed(CompletedTask),
    /// There is an error of JSON-RPC.
    Failed(FailedTask),
    /// It was given up.
    Cancelled(CancelledTask),
}

/// A task that goes on: what is known of one in any state.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkingTask {
    /// What it is asked for by; nobody can guess it.
    pub task_id: String,
    /// What is being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// When it began, as ISO 8601 has it.
    pub created_at: String,
    /// When this last changed, as ISO 8601 has it.
    pub last_updated_at: String,
    /// How long it is kept from its beginning on, in milliseconds; `None`, which is written as `null`, for as
    /// long as the server likes.
    pub ttl_ms: Option<u64>,
    /// How often to ask, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_interval_ms: Option<u64>,
}

/// A task that was given up.
pub type CancelledTask = WorkingTask;

/// A task for which the client is to answer first.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputRequiredTask {
    /// What is known of any task.
    #[serde(flatten)]
    pub task: WorkingTask,
    /// What is asked. No name is used for two questions of a task.
    pub input_requests: InputRequests,
}

/// A task with a result.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CompletedTask {
    /// What is known of any task.
    #[serde(flatten)]
    pub task: WorkingTask,
    /// What the request would have been answered with.
    pub result: JsonObject,
}

/// A task with an error.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FailedTask {
    /// What is known of any task.
    #[serde(flatten)]
    pub task: WorkingTask,
    /// What the request would have been answered with.
    pub error: Error,
}

/// That the answer will be had from a task.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CreateTaskResult {
    /// The task.
    #[serde(flatten)]
    pub task: Task,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// How a task stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GetTaskResult {
    /// The task.
    #[serde(flatten)]
    pub task: DetailedTask,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// How a task stands, told to who subscribed to it.
pub type TaskStatusNotificationParams = GetTaskResult;

/// The tasks that a subscription is about: members of a [`SubscriptionFilter`](super::SubscriptionFilter).
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskSubscriptionNotifications {
    /// How these stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_ids: Vec<String>,
}

/// The tasks that a subscription will be told of.
pub type TaskSubscriptionAcknowledgedNotifications = TaskSubscriptionNotifications;
