//! The part of a session of the legacy era that belongs to a bridge.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::tasks::{Owner, TasksOfSession};
use super::upstream::{Upstream, Watch};

/// State of a bridge for one session, apart from the far side. The order of the fields matters: when the session ends, the
/// bridge cancels its tasks before it closes the server of the session.
#[derive(Debug)]
pub(super) struct SessionState {
    /// `true` once the server that sessions share knows that the session wants log messages.
    hears_logs: AtomicBool,
    /// Cancels the tasks of 2025-11-25 of the client.
    tasks: Option<TasksOfSession>,
    /// The server that is for this session alone, if it has one.
    upstream: Mutex<Option<Arc<Upstream>>>,
    /// Subscriptions to resources, by their URIs.
    watches: Mutex<HashMap<String, Watch>>,
}

impl SessionState {
    pub(super) fn new(tasks: Option<TasksOfSession>) -> Self {
        let hears_logs = AtomicBool::new(false);
        Self { hears_logs, tasks, upstream: Mutex::default(), watches: Mutex::default() }
    }

    /// Returns the owner of the tasks of the client, if its calls may become tasks.
    pub(super) fn owner(&self) -> Option<&Owner> {
        self.tasks.as_ref().map(TasksOfSession::owner)
    }

    /// Returns the server that is for this session alone.
    pub(super) fn upstream(&self) -> MutexGuard<'_, Option<Arc<Upstream>>> {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the subscriptions to resources.
    pub(super) fn watches(&self) -> MutexGuard<'_, HashMap<String, Watch>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` the first time only: the server that sessions share then gets to know the session.
    pub(super) fn begins_to_hear_logs(&self) -> bool {
        !self.hears_logs.load(Ordering::Relaxed) && !self.hears_logs.swap(true, Ordering::Relaxed)
    }
}
