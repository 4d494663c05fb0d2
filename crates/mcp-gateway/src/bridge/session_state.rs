//! The state of one session of a legacy client at one server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::credentials::CallerCredential;
use super::tasks::{TaskOwner, TasksOfSession};
use super::upstream::{Upstream, Watch};

/// The tasks, the dedicated server and the subscriptions of one session. The field `tasks` must be before
/// `upstream`, because Rust drops fields in this order. The bridge must cancel the tasks before it closes the
/// connection to their server.
#[derive(Debug)]
pub(super) struct SessionState {
    /// `true` if the session is registered for log messages of the server that all callers share.
    hears_logs: AtomicBool,
    /// The connection with the credential of the caller, if each caller has its own. The connection stays
    /// open during the session, and the session is registered for its log messages.
    of_caller: Mutex<Option<Arc<Upstream>>>,
    /// Cancels the client's tasks at the end of the session.
    tasks: Option<TasksOfSession>,
    /// The dedicated server of the session, if any.
    upstream: Mutex<Option<Arc<Upstream>>>,
    /// The session's subscriptions to resources, by URI.
    watches: Mutex<HashMap<String, Watch>>,
}

impl SessionState {
    pub(super) fn new(tasks: Option<TasksOfSession>) -> Self {
        Self {
            hears_logs: AtomicBool::new(false),
            of_caller: Mutex::default(),
            tasks,
            upstream: Mutex::default(),
            watches: Mutex::default(),
        }
    }

    /// Returns the key under which the bridge stores the tasks of this session. Returns `None` if the bridge
    /// does not forward tasks for this session.
    pub(super) fn owner(&self) -> Option<&TaskOwner> {
        self.tasks.as_ref().map(TasksOfSession::owner)
    }

    /// Returns the dedicated server of the session, if any.
    pub(super) fn upstream(&self) -> MutexGuard<'_, Option<Arc<Upstream>>> {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the session's subscriptions to resources.
    pub(super) fn watches(&self) -> MutexGuard<'_, HashMap<String, Watch>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the credential that the last request of the session used, if each caller has its own.
    pub(super) fn credential(&self) -> Option<Arc<CallerCredential>> {
        let upstream = self.upstream().clone().or_else(|| self.of_caller().clone());
        upstream?.credential().cloned()
    }

    /// Returns `true` if the session is not registered for the log messages of `upstream` yet. The caller
    /// must then register the session.
    pub(super) fn is_new_listener(&self, upstream: &Arc<Upstream>) -> bool {
        if upstream.credential().is_none() {
            return !self.hears_logs.load(Ordering::Relaxed)
                && !self.hears_logs.swap(true, Ordering::Relaxed);
        }
        let mut of_caller = self.of_caller();
        let is_same = of_caller.as_ref().is_some_and(|known| Arc::ptr_eq(known, upstream));
        if !is_same {
            *of_caller = Some(upstream.clone());
        }
        !is_same
    }

    fn of_caller(&self) -> MutexGuard<'_, Option<Arc<Upstream>>> {
        self.of_caller.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
