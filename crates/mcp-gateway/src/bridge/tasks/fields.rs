//! Parses task data in messages of a server of MCP revision 2025-11-25.

use std::time::Duration;

use serde::Deserialize;
use thruway_mcp::json_rpc::{Error, ErrorCode};
use thruway_mcp::schema::{TaskStatus, methods};
use thruway_mcp_client::McpClientError;
use thruway_mcp_client::forwarding::Answer;

/// The members of a task's state that the bridge needs. The bridge does not parse the other members.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskFields {
    pub(super) task_id: Box<str>,
    pub(super) status: TaskStatus,
    #[serde(default)]
    ttl: Option<u64>,
}

#[derive(Deserialize)]
struct Created {
    #[serde(default)]
    task: Option<TaskFields>,
}

impl TaskFields {
    /// Parses the state of a task.
    ///
    /// # Errors
    /// The text is not the state of a task, or the task id is too long.
    pub(super) fn parse(json: &str) -> Result<Self, McpClientError> {
        let task: Self =
            serde_json::from_str(json).map_err(|error| McpClientError::result_invalid(&error))?;
        task.checked()
    }

    /// Returns the task in the answer to a call, or `None` if the answer contains no task.
    ///
    /// # Errors
    /// The answer is invalid, or the task id is too long.
    pub(super) fn created(answer: &Answer) -> Result<Option<Self>, McpClientError> {
        let created: Created =
            serde_json::from_str(answer.get()).map_err(|error| McpClientError::result_invalid(&error))?;
        created.task.map(Self::checked).transpose()
    }

    fn checked(self) -> Result<Self, McpClientError> {
        if self.task_id.len() > ID_BYTES_MAX {
            return Err(McpClientError::result_invalid(&"the task id is too long"));
        }
        Ok(self)
    }

    /// Returns the lifetime of the task: after this time, the server may delete the task. Returns `None` if
    /// the lifetime is not limited.
    pub(super) fn ttl(&self) -> Option<Duration> {
        self.ttl.map(Duration::from_millis)
    }

    /// Returns `true` if the task is completed, failed or canceled.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self.status, TaskStatus::Cancelled | TaskStatus::Completed | TaskStatus::Failed)
    }
}

/// Maximum length of a task id, in bytes.
pub(in crate::bridge) const ID_BYTES_MAX: usize = 1024;

/// Returns `true` if `method` is a request about existing tasks in any protocol revision.
pub(in crate::bridge) fn is_about_tasks(method: &str) -> bool {
    matches!(
        method,
        methods::TASKS_CANCEL
            | methods::TASKS_GET
            | methods::TASKS_LIST
            | methods::TASKS_RESULT
            | methods::TASKS_UPDATE
    )
}

/// Returns the error for a task request that the server does not support in the client's era.
pub(in crate::bridge) fn no_method() -> Error {
    Error::new(
        ErrorCode::METHOD_NOT_FOUND,
        "the server behind this bridge does not support this request about tasks",
    )
}
