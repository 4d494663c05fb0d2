//! What a server of 2025-11-25 says of a task.

use std::time::Duration;

use serde::Deserialize;
use thruway_mcp::json_rpc::{Error, ErrorCode};
use thruway_mcp::schema::{TaskStatus, methods};
use thruway_mcp_client::McpClientError;
use thruway_mcp_client::forwarding::Answer;

/// What is wanted of how a task stands: the rest is not read.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskSaid {
    pub(super) task_id: Box<str>,
    pub(super) status: TaskStatus,
    #[serde(default)]
    ttl: Option<u64>,
}

#[derive(Deserialize)]
struct Created {
    #[serde(default)]
    task: Option<TaskSaid>,
}

impl TaskSaid {
    /// # Errors
    /// It says nothing of the kind, or too much.
    pub(super) fn parse(json: &str) -> Result<Self, McpClientError> {
        let task: Self =
            serde_json::from_str(json).map_err(|error| McpClientError::result_invalid(&error))?;
        task.checked()
    }

    /// The task that a call has become, if it has.
    ///
    /// # Errors
    /// It cannot be told whether it has, or the task cannot be remembered.
    pub(super) fn created(answer: &Answer) -> Result<Option<Self>, McpClientError> {
        let created: Created =
            serde_json::from_str(answer.get()).map_err(|error| McpClientError::result_invalid(&error))?;
        created.task.map(Self::checked).transpose()
    }

    fn checked(self) -> Result<Self, McpClientError> {
        if self.task_id.len() > ID_BYTES_MAX {
            return Err(McpClientError::result_invalid(&"the id of its task is too long"));
        }
        Ok(self)
    }

    /// How long the task is kept from its beginning on, if that is limited.
    pub(super) fn ttl(&self) -> Option<Duration> {
        self.ttl.map(Duration::from_millis)
    }

    /// Whether it will not stand otherwise any more.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self.status, TaskStatus::Cancelled | TaskStatus::Completed | TaskStatus::Failed)
    }
}

/// The longest id of a task.
pub(in crate::bridge) const ID_BYTES_MAX: usize = 1024;

/// Whether a request is about tasks that there are, of any revision.
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

/// Tasks of one era are not those of the other.
pub(in crate::bridge) fn no_method() -> Error {
    Error::new(ErrorCode::METHOD_NOT_FOUND, "the server behind this one has no tasks of this revision")
}
