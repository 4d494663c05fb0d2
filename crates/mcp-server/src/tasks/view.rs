//! The JSON representation of tasks that clients get.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::{MetaObject, TaskStatus};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Task;
use super::task::{State, TaskDetails};
use crate::ask::Question;

/// The type `DetailedTask` of the MCP schema. This value borrows from the task, so that a poll of a client
/// does not copy the result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskView<'a> {
    task_id: &'a str,
    status: TaskStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_message: Option<&'a str>,
    created_at: String,
    last_updated_at: String,
    ttl_ms: u64,
    poll_interval_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_requests: Option<BTreeMap<&'a str, &'a Question>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Error>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a MetaObject>,
}

impl Task {
    /// Calls `show` with the task and the details of its state, for example for the answer to `tasks/get`.
    pub(crate) fn show<R>(&self, meta: Option<&MetaObject>, show: impl FnOnce(&TaskView<'_>) -> R) -> R {
        let details = self.details.borrow();
        let mut view = self.view(&details);
        view.meta = meta;
        match &details.state {
            State::InputRequired(questions) => {
                let questions = questions.iter().map(|(name, pending)| (&**name, &pending.question));
                view.input_requests = Some(questions.collect());
            }
            State::Completed(result) => view.result = Some(result),
            State::Failed(error) => view.error = Some(error),
            State::Called | State::Beginning | State::Working | State::Cancelled => {}
        }
        show(&view)
    }

    /// Calls `show` with the short form of the task, without the details of its state. The server uses this
    /// form to answer a call that has become a task.
    pub(crate) fn show_short<R>(&self, show: impl FnOnce(&TaskView<'_>) -> R) -> R {
        let details = self.details.borrow();
        show(&self.view(&details))
    }

    fn view<'a>(&'a self, details: &'a TaskDetails) -> TaskView<'a> {
        TaskView {
            task_id: &self.id,
            status: details.state.status(),
            status_message: details.message.as_deref(),
            created_at: iso_8601(self.created),
            last_updated_at: iso_8601(details.updated),
            ttl_ms: milliseconds(self.options.ttl),
            poll_interval_ms: milliseconds(self.options.poll_interval),
            input_requests: None,
            result: None,
            error: None,
            meta: None,
        }
    }
}

fn iso_8601(time: SystemTime) -> String {
    // Formatting fails only for years with more than four digits.
    OffsetDateTime::from(time).truncate_to_millisecond().format(&Rfc3339).unwrap_or_default()
}

/// Returns the duration in milliseconds. The value is at least 1, and at most the largest integer that all
/// clients can read.
fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).clamp(1, SAFE_INTEGER_MAX)
}

/// The largest integer that all clients can read.
const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;
