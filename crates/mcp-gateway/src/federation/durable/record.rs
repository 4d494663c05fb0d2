//! The stored form of a task.

use std::time::Duration;

use memchr::memmem;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use thruway_mcp::Era;
use thruway_mcp::json_rpc::{Error, ErrorCode, Id, write_error, write_result};
use thruway_mcp::modern::ResultType;
use thruway_mcp::schema::{JsonObject, TaskStatus, methods};
use thruway_mcp_server::backend::ServerCore;

/// A task in the archive. Clients get the same data as from the gateway that began the task.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(in crate::federation) struct TaskRecord {
    /// The client's id of the task.
    pub(in crate::federation) id: String,
    /// The unique name of the caller, if the caller was authenticated. Other callers get no answer.
    pub(in crate::federation) caller: Option<String>,
    /// The gateway that began the task.
    pub(in crate::federation) replica: String,
    pub(super) is_modern: bool,
    /// The member's own id of the task, if the task continues at the member after its gateway has ended.
    pub(in crate::federation) own_id: Option<String>,
    /// The state of the task, as the client gets it.
    state: JsonObject,
    /// The result of a legacy task. The state of a modern task contains its result.
    result: Option<Box<RawValue>>,
    /// The error of a legacy task.
    error: Option<Error>,
    /// `true` if the result was too large for the archive.
    is_cut: bool,
}

/// A response of JSON-RPC.
#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Error>,
}

/// The outcome of a request for the state of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Polled {
    /// The task has ended.
    Over,
    /// The status has changed.
    Changed,
    Same,
    /// The member does not know the task anymore.
    Lost,
    /// The member did not answer.
    Unknown,
}

/// Returns `true` if a response is an error.
pub(in crate::federation) fn is_error(answer: &[u8]) -> bool {
    memmem::find(answer, b"\"error\"").is_some() && parse(answer).is_some_and(|answer| answer.error.is_some())
}

/// Returns `true` if an answer to `tasks/get` or `tasks/result` shows that the task has ended.
pub(in crate::federation) fn shows_end(method: &str, answer: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct State {
        status: TaskStatus,
    }
    match method {
        methods::TASKS_RESULT => true,
        methods::TASKS_GET => {
            let result = parse(answer).and_then(|answer| answer.result);
            let state = result.and_then(|result| serde_json::from_str::<State>(result.get()).ok());
            state.is_some_and(|state| {
                matches!(state.status, TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled)
            })
        }
        _ => false,
    }
}

fn parse(answer: &[u8]) -> Option<Response<'_>> {
    serde_json::from_slice(answer).ok()
}

impl TaskRecord {
    /// Returns the record of the task that begins with `answer`, the answer to a call. Returns `None` if the call has
    /// not become a task.
    pub(super) fn begun(answer: &[u8], era: Era, caller: Option<String>, replica: String) -> Option<Self> {
        // Most answers contain no task.
        memmem::find(answer, b"\"taskId\"")?;
        let mut state: JsonObject = serde_json::from_str(parse(answer)?.result?.get()).ok()?;
        let is_modern = era == Era::Modern;
        if is_modern && state.get("resultType").and_then(Value::as_str) != Some("task") {
            return None;
        }
        if !is_modern {
            let Some(Value::Object(task)) = state.shift_remove("task") else { return None };
            state = task;
        }
        let id = state.get("taskId")?.as_str()?.to_owned();
        let mut record = Self {
            id,
            caller,
            replica,
            is_modern,
            own_id: None,
            state,
            result: None,
            error: None,
            is_cut: false,
        };
        record.strip();
        Some(record)
    }

    /// Parses a record of the archive.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Returns the record as text of at most `max` bytes. A result that is too large is missing.
    pub(super) fn to_bytes(&self, max: usize) -> Vec<u8> {
        let whole = serde_json::to_vec(self).unwrap_or_default();
        if whole.len() <= max {
            return whole;
        }
        let mut cut = self.clone();
        cut.is_cut = true;
        (cut.result, cut.error) = (None, None);
        for member in ["result", "error", "inputRequests"] {
            cut.state.shift_remove(member);
        }
        serde_json::to_vec(&cut).unwrap_or_default()
    }

    pub(in crate::federation) const fn era(&self) -> Era {
        if self.is_modern { Era::Modern } else { Era::Legacy }
    }

    fn status(&self) -> &str {
        self.state.get("status").and_then(Value::as_str).unwrap_or_default()
    }

    pub(in crate::federation) fn is_over(&self) -> bool {
        matches!(self.status(), "completed" | "failed" | "cancelled")
    }

    /// Returns `true` if the task is lost if its gateway has ended.
    pub(super) fn can_be_lost(&self) -> bool {
        !self.is_over() && self.own_id.is_none()
    }

    /// Returns the lifetime of the task, at most [`TTL_MAX`].
    pub(super) fn ttl(&self) -> Duration {
        let member = if self.is_modern { "ttlMs" } else { "ttl" };
        let ttl = self.state.get(member).and_then(Value::as_u64).map(Duration::from_millis);
        ttl.unwrap_or(TTL_MAX).clamp(TTL_MIN, TTL_MAX)
    }

    /// Stores the state in `answer`, the answer to `tasks/get`.
    pub(in crate::federation) fn take_state(&mut self, answer: &[u8]) -> Option<()> {
        matches!(self.poll(answer), Polled::Over | Polled::Changed | Polled::Same).then_some(())
    }

    /// Like [`take_state`](Self::take_state), but returns more.
    pub(super) fn poll(&mut self, answer: &[u8]) -> Polled {
        match parse(answer) {
            Some(Response { error: Some(error), .. }) if error.code == ErrorCode::INVALID_PARAMS => {
                Polled::Lost
            }
            Some(Response { result: Some(result), .. }) => {
                let Ok(state) = serde_json::from_str::<JsonObject>(result.get()) else {
                    return Polled::Unknown;
                };
                let before = self.status().to_owned();
                if state.get("status").is_none_or(|status| !status.is_string()) {
                    return Polled::Unknown;
                }
                self.state = state;
                self.strip();
                match (self.is_over(), self.status() == before) {
                    (true, _) => Polled::Over,
                    (false, true) => Polled::Same,
                    (false, false) => Polled::Changed,
                }
            }
            _ => Polled::Unknown,
        }
    }

    /// Removes the members that each answer gets again, and restores the client's id.
    fn strip(&mut self) {
        self.state.shift_remove("resultType");
        self.state.shift_remove("_meta");
        self.state.insert("taskId".to_owned(), self.id.clone().into());
    }

    /// Stores the result in `answer`, the answer to `tasks/result`.
    pub(in crate::federation) fn take_result(&mut self, answer: &[u8]) {
        if let Some(answer) = parse(answer) {
            (self.result, self.error) = (answer.result.map(ToOwned::to_owned), answer.error);
        }
    }

    /// Stores the error in the answer to `tasks/result`.
    pub(in crate::federation) fn take_error(&mut self, error: Error) {
        (self.result, self.error) = (None, Some(error));
    }

    /// Marks a task as failed.
    pub(in crate::federation) fn fail(&mut self, reason: &'static str) {
        let error = Error::internal(reason);
        for member in ["inputRequests", "result"] {
            self.state.shift_remove(member);
        }
        self.state.insert("status".to_owned(), "failed".into());
        self.state.insert("statusMessage".to_owned(), reason.into());
        if self.is_modern {
            let error = serde_json::to_value(&error).unwrap_or_default();
            self.state.insert("error".to_owned(), error);
        }
        (self.result, self.error) = (None, (!self.is_modern).then_some(error));
    }

    /// Lets each gateway ask the member about the task, because the gateway that began it asks no more. A task that
    /// cannot continue is canceled.
    pub(super) fn release(&mut self, reason: &'static str) {
        if self.own_id.is_some() {
            self.replica.clear();
            return;
        }
        self.state.insert("status".to_owned(), "cancelled".into());
        self.state.insert("statusMessage".to_owned(), reason.into());
    }

    /// Marks a completed task as failed if the archive does not contain its result.
    pub(super) fn fail_if_cut(&mut self) {
        if self.is_cut && self.is_over() {
            self.fail(
                "the result of the task is lost: it was too large for the store, and its gateway has ended",
            );
        }
    }

    /// Returns the state of the task, for the list of tasks.
    pub(in crate::federation) const fn state(&self) -> &JsonObject {
        &self.state
    }

    /// Appends the answer to a request about the task. Returns `false` if the answer is not known yet.
    pub(in crate::federation) fn write_answer(
        &self,
        core: &ServerCore,
        id: &Id<'_>,
        method: &str,
        output: &mut Vec<u8>,
    ) -> bool {
        match (self.era(), method) {
            (Era::Modern, methods::TASKS_GET) => write_result(output, id, |output| {
                core.results().write(output, ResultType::Complete, None, &self.state, None)
            }),
            (Era::Modern, _) => write_result(output, id, |output| {
                core.results().write(output, ResultType::Complete, None, &JsonObject::new(), None)
            }),
            (Era::Legacy, methods::TASKS_GET) => {
                write_result(output, id, |output| write_json(output, &self.state));
            }
            (Era::Legacy, methods::TASKS_RESULT) => match (&self.result, &self.error, self.is_over()) {
                (Some(result), ..) => write_result(output, id, |output| write_json(output, result)),
                (None, Some(error), _) => write_error(output, Some(id), error),
                (None, None, true) => {
                    write_error(output, Some(id), &Error::invalid_params("the task was canceled"));
                }
                (None, None, false) => return false,
            },
            (Era::Legacy, _) if self.is_over() => {
                write_error(output, Some(id), &Error::invalid_params("the task has ended"));
            }
            (Era::Legacy, _) => {
                let reason = "only the session that began the task can cancel it while its gateway runs";
                write_error(output, Some(id), &Error::invalid_params(reason));
            }
        }
        true
    }
}

fn write_json(output: &mut Vec<u8>, value: &impl Serialize) -> Result<(), Error> {
    serde_json::to_writer(output, value).map_err(|_| Error::internal("cannot write the result as JSON"))
}

/// Maximum lifetime of a record.
const TTL_MAX: Duration = Duration::from_hours(24);

const TTL_MIN: Duration = Duration::from_secs(1);
