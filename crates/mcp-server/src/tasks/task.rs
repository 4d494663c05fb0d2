//! A single task: its states and its transitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::{CallToolResult, TaskStatus};
use thruway_net::{Clock, random_bytes};
use tokio::sync::{oneshot, watch};

use super::TaskOptions;
use crate::ask::Question;
use crate::authorization::Caller;
use crate::handlers::HandlerError;
use crate::server::Changes;
use crate::shares::Holder;

/// A call that may become a task, or has become a task.
#[derive(Debug)]
pub(crate) struct Task {
    /// The unguessable id with which clients refer to the task.
    pub(super) id: Arc<str>,
    /// The unique name of the caller that owns the task, if callers are authenticated. Other callers cannot
    /// find the task.
    pub(super) owner: Option<String>,
    /// The caller to whose limits the task counts.
    pub(super) holder: Holder,
    pub(super) options: Arc<TaskOptions>,
    pub(super) created: SystemTime,
    /// The current state. Futures wait for changes of this value.
    pub(super) details: watch::Sender<TaskDetails>,
    /// The clients' subscriptions to changes of tasks.
    changes: Changes<Arc<str>>,
}

#[derive(Debug)]
pub(super) struct TaskDetails {
    pub(super) state: State,
    /// A text that describes the progress or the error to users.
    pub(super) message: Option<String>,
    pub(super) updated: SystemTime,
    /// The names of all questions that the handler has asked so far. Each question of a task has a different
    /// name.
    names: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) enum State {
    /// The call is still a request, and may become a task.
    Called,
    /// The handler has asked the server to turn the call into a task.
    Beginning,
    Working,
    /// The handler waits for the answers to these questions. The map is never empty.
    InputRequired(BTreeMap<String, Pending>),
    Completed(Box<RawValue>),
    Failed(Error),
    Cancelled,
}

/// A question that has no answer yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) question: Question,
    answer: oneshot::Sender<Value>,
}

impl Task {
    /// Returns a task for a call that may become a task. Without `id`, the task gets a random id.
    ///
    /// # Panics
    /// Panics if the operating system provides no random bytes.
    pub(super) fn new(
        id: Option<Box<str>>,
        caller: &Caller,
        options: Arc<TaskOptions>,
        changes: Changes<Arc<str>>,
    ) -> Self {
        let random_id = || URL_SAFE_NO_PAD.encode(random_bytes::<ID_BYTES>()).into();
        let created = now();
        let details =
            TaskDetails { state: State::Called, message: None, updated: created, names: BTreeSet::new() };
        Self {
            id: id.map_or_else(random_id, Arc::from),
            owner: caller.principal(),
            holder: caller.holder(),
            options,
            created,
            details: watch::Sender::new(details),
            changes,
        }
    }

    /// Returns the caller to whose limits the task counts.
    pub(crate) const fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Asks the server to turn the call into a task, and waits until the call is a task. Called by the
    /// handler.
    pub(crate) async fn wait_to_begin(&self) {
        self.change(|details| {
            let is_asked = matches!(details.state, State::Called);
            if is_asked {
                details.state = State::Beginning;
            }
            is_asked
        });
        self.until(State::has_begun).await;
    }

    /// Waits until the handler asks the server to turn the call into a task. Called by the server while it
    /// polls the handler.
    pub(crate) async fn beginning(&self) {
        self.until(|state| matches!(state, State::Beginning)).await;
    }

    /// Marks the call as a task.
    pub(super) fn begin(&self) {
        self.change(|details| {
            details.state = State::Working;
            true
        });
    }

    /// Sets the message of the task to a progress report.
    pub(crate) fn report(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let message = match (message, total) {
            (Some(message), _) => bounded(message),
            (None, Some(total)) => format!("{progress} of {total}"),
            (None, None) => progress.to_string(),
        };
        self.change(|details| {
            let is_running = !details.state.is_over();
            if is_running {
                details.message = Some(message);
            }
            is_running
        });
    }

    /// Asks the client a question, and waits for the answer. The name of the question begins with `key`.
    ///
    /// # Errors
    /// Returns an error if the handler has asked too many questions, or if the task has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, the task withdraws the question.
    pub(crate) async fn ask(&self, key: &str, question: Question) -> Result<Value, Error> {
        let (answer, answered) = oneshot::channel();
        let mut named = Err(over());
        self.change(|details| {
            named = details.ask(key, Pending { question, answer });
            named.is_ok()
        });
        let _asked = WithdrawOnDrop { task: self, name: named? };
        answered.await.map_err(|_| over())
    }

    /// Delivers answers to the handler. Each key in `answers` is the name of a question. Ignores answers to
    /// unknown or already answered questions.
    pub(crate) fn answer(&self, answers: BTreeMap<String, Value>) {
        self.change(|details| {
            let taken = answers.into_iter().filter_map(|(name, answer)| {
                // Sending fails if the future that asked the question was dropped.
                details.state.take(&name).map(|pending| drop(pending.answer.send(answer)))
            });
            taken.count() > 0
        });
    }

    /// Cancels the task, unless the task has already ended. The server then drops the handler of the task.
    pub(crate) fn cancel(&self) {
        self.end(|| (State::Cancelled, None));
    }

    /// Stores the outcome of the handler. Does nothing if the task has already ended, so a canceled task
    /// stays canceled.
    pub(super) fn settle(&self, outcome: Result<CallToolResult, HandlerError>) {
        self.end(|| {
            let kept = outcome.map_err(Error::from).and_then(|result| self.keep(&result));
            match kept {
                Ok(result) => (State::Completed(result), None),
                Err(error) => {
                    let message = bounded(&error.message);
                    (State::Failed(error), Some(message))
                }
            }
        });
    }

    fn keep(&self, result: &CallToolResult) -> Result<Box<RawValue>, Error> {
        let result = to_raw_value(result).map_err(|_| Error::internal("cannot write the result as JSON"))?;
        if result.get().len() > self.options.result_bytes_max {
            return Err(Error::internal("the result is larger than the server allows for a task"));
        }
        Ok(result)
    }

    fn end(&self, end: impl FnOnce() -> (State, Option<String>)) {
        self.change(|details| {
            let is_running = !details.state.is_over();
            if is_running {
                (details.state, details.message) = end();
            }
            is_running
        });
    }

    /// Applies `change` to the state. If `change` returns `true`, notifies all subscribers.
    fn change(&self, change: impl FnOnce(&mut TaskDetails) -> bool) {
        let is_changed = self.details.send_if_modified(|details| {
            let is_changed = change(details);
            if is_changed {
                details.updated = now();
            }
            is_changed
        });
        if is_changed && self.has_begun() {
            self.changes.announce(&self.id);
        }
    }

    async fn until(&self, is_so: impl Fn(&State) -> bool) {
        // `self` owns the sender, so waiting cannot fail.
        let _ = self.details.subscribe().wait_for(|details| is_so(&details.state)).await;
    }

    /// Waits until the task has ended.
    pub(crate) async fn over(&self) {
        self.until(State::is_over).await;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.details.borrow().state.is_over()
    }

    /// Returns `true` if the call has become a task, even if the task has ended since then.
    pub(crate) fn has_begun(&self) -> bool {
        self.details.borrow().state.has_begun()
    }
}

impl TaskDetails {
    /// Adds a question and returns its unique name.
    fn ask(&mut self, key: &str, pending: Pending) -> Result<String, Error> {
        if self.state.is_over() {
            return Err(over());
        }
        if self.names.len() >= QUESTIONS_MAX {
            return Err(Error::internal("the handler asked the client too many times"));
        }
        let name = self.unused_name(key);
        self.state.add(name.clone(), pending);
        Ok(name)
    }

    /// Returns a name that no earlier question of this task has.
    fn unused_name(&mut self, key: &str) -> String {
        let mut name = key.to_owned();
        let mut n = 2_u32;
        while !self.names.insert(name.clone()) {
            name = format!("{key}-{n}");
            n += 1;
        }
        name
    }
}

impl State {
    fn add(&mut self, name: String, pending: Pending) {
        match self {
            Self::InputRequired(questions) => drop(questions.insert(name, pending)),
            _ => *self = Self::InputRequired([(name, pending)].into()),
        }
    }

    /// Removes and returns the question `name`.
    fn take(&mut self, name: &str) -> Option<Pending> {
        let Self::InputRequired(questions) = self else { return None };
        let pending = questions.remove(name);
        if questions.is_empty() {
            *self = Self::Working;
        }
        pending
    }

    const fn has_begun(&self) -> bool {
        !matches!(self, Self::Called | Self::Beginning)
    }

    const fn is_over(&self) -> bool {
        matches!(self, Self::Completed(_) | Self::Failed(_) | Self::Cancelled)
    }

    /// Returns the status that clients get.
    pub(super) const fn status(&self) -> TaskStatus {
        match self {
            Self::Called | Self::Beginning | Self::Working => TaskStatus::Working,
            Self::InputRequired(_) => TaskStatus::InputRequired,
            Self::Completed(_) => TaskStatus::Completed,
            Self::Failed(_) => TaskStatus::Failed,
            Self::Cancelled => TaskStatus::Cancelled,
        }
    }
}

/// Withdraws a question from its task when this guard is dropped.
struct WithdrawOnDrop<'a> {
    task: &'a Task,
    name: String,
}

impl Drop for WithdrawOnDrop<'_> {
    fn drop(&mut self) {
        self.task.change(|details| details.state.take(&self.name).is_some());
    }
}

fn over() -> Error {
    Error::internal("the task has ended")
}

fn now() -> SystemTime {
    Clock::system().time_of_day()
}

fn bounded(message: &str) -> String {
    message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)].to_owned()
}

/// Number of random bytes in a task id, so that the id is unguessable.
const ID_BYTES: usize = 24;

/// Maximum number of questions that the handler of a task may ask.
const QUESTIONS_MAX: usize = 32;

/// Maximum length of a task's message, in bytes. A longer message is cut off.
const MESSAGE_BYTES_MAX: usize = 1000;
