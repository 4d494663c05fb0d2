//! Whose a task is, and who is told of it.

use std::sync::{Arc, Weak};

use thruway_mcp::schema::RequestId;
use tokio::sync::mpsc;

use super::table::Tasks;
use crate::dispatch::Said;
use crate::session::Session;

/// Whose a task is: for everybody else it is not there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A session's: it has a number that no other one has.
    Session(u64),
}

/// Gives up the tasks of a session when it is dropped.
#[derive(Debug)]
pub(crate) struct TasksOfSession {
    tasks: Arc<Tasks>,
    owner: Owner,
    /// Whether servers let tasks be given up.
    can_cancel: bool,
}

/// Who is told how a task stands.
#[derive(Clone, Debug)]
pub(in crate::bridge) struct Listener {
    session: Weak<Session>,
    /// The request that is open and about the task, if one is.
    outbox: mpsc::WeakSender<Said>,
    /// What progress is reported under.
    progress_token: Option<RequestId>,
}

impl TasksOfSession {
    pub(in crate::bridge) const fn new(tasks: Arc<Tasks>, number: u64, can_cancel: bool) -> Self {
        Self { tasks, owner: Owner::Session(number), can_cancel }
    }

    pub(in crate::bridge) const fn owner(&self) -> &Owner {
        &self.owner
    }
}

impl Drop for TasksOfSession {
    /// There is no other place that learns that nobody comes back to them.
    fn drop(&mut self) {
        let working = self.tasks.forget_all(&self.owner).into_iter().filter(|_| self.can_cancel);
        working.for_each(|task| task.upstream.client.cancel_task_apart(task.id));
    }
}

impl Listener {
    pub(in crate::bridge) fn new(
        session: &Arc<Session>,
        outbox: &mpsc::Sender<Said>,
        progress_token: Option<RequestId>,
    ) -> Self {
        Self { session: Arc::downgrade(session), outbox: outbox.downgrade(), progress_token }
    }

    /// The same, told on the stream of another request.
    pub(in crate::bridge) fn listen_on(&mut self, outbox: &mpsc::Sender<Said>) {
        self.outbox = outbox.downgrade();
    }

    pub(super) const fn progress_token(&self) -> Option<&RequestId> {
        self.progress_token.as_ref()
    }

    /// Tells a message, on the stream of the request that is open, or where the server speaks by itself. Who does not read is
    /// not told of everything.
    pub(super) fn tell(&self, message: Vec<u8>) {
        let message = Said::Message(message);
        let rest = match self.outbox.upgrade() {
            Some(outbox) => outbox.try_send(message).map_err(mpsc::error::TrySendError::into_inner),
            None => Err(message),
        };
        let Err(message) = rest else { return };
        if let Some(session) = self.session.upgrade()
            && let Some(asides) = session.asides()
        {
            let _ = asides.outbox().try_send(message);
        }
    }
}
