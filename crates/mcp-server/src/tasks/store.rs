//! The store of all tasks of a server. The store finds, runs and removes tasks.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::CallToolResult;
use tokio::time::{sleep, timeout};

use super::{Task, TaskOptions};
use crate::authorization::Caller;
use crate::handlers::{HandlerError, Later, poll_caught, too_late};
use crate::replica_ids::{ReplicaIdKind, ReplicaIds};
use crate::server::{Changes, Subscription};
use crate::shares::{LimitReached, Share, Shares};

/// All tasks of a server. Clones refer to the same tasks.
#[derive(Clone, Debug)]
pub(crate) struct Tasks(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: Arc<TaskOptions>,
    kept: Mutex<HashMap<Arc<str>, Arc<Task>>>,
    places: Arc<Shares>,
    changes: Changes<Arc<str>>,
    /// Creates the ids. `None` if ids do not name the replica.
    replica_ids: Option<ReplicaIds>,
}

impl Tasks {
    pub(crate) fn new(options: TaskOptions, replica_ids: Option<ReplicaIds>) -> Self {
        Self(Arc::new(Inner {
            replica_ids,
            places: Shares::new(options.tasks_max),
            options: Arc::new(options),
            kept: Mutex::default(),
            changes: Changes::default(),
        }))
    }

    /// Prepares a task for a call that may become a task. The store does not contain the task yet.
    pub(crate) fn prepare(&self, caller: &Caller) -> Arc<Task> {
        let id = self.0.replica_ids.as_ref().map(|ids| ids.issue_id(ReplicaIdKind::Task));
        Arc::new(Task::new(id, caller, self.0.options.clone(), self.0.changes.clone()))
    }

    /// Turns a call into a task: stores the task and spawns its handler. `bytes` is the call's share of
    /// `in_flight_bytes_max`, which is kept until the handler is dropped.
    ///
    /// # Errors
    /// Returns an error if the server or this caller has too many tasks.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub(crate) fn begin(
        &self,
        task: Arc<Task>,
        later: Later<CallToolResult>,
        bytes: Option<Share>,
    ) -> Result<(), Error> {
        let kept = self.keep(&task)?;
        task.begin();
        tokio::spawn(run(task, later, kept, bytes));
        Ok(())
    }

    fn keep(&self, task: &Arc<Task>) -> Result<RemoveOnDrop, Error> {
        let options = &self.0.options;
        let mut kept = self.lock();
        let is_own = |other: &&Arc<Task>| other.owner == task.owner;
        let of_caller = || kept.values().filter(is_own).count();
        let too_many_of_caller = || Error::internal("this caller has too many tasks: try again later");
        if task.owner.is_some() && of_caller() >= options.tasks_per_caller_max {
            return Err(too_many_of_caller());
        }
        let place = self.0.places.take(&task.holder, 1).map_err(|refusal| match refusal {
            LimitReached::Full => Error::internal("there are too many tasks: try again later"),
            LimitReached::HolderHasShare => too_many_of_caller(),
        })?;
        kept.insert(task.id.clone(), task.clone());
        Ok(RemoveOnDrop { tasks: self.clone(), id: task.id.clone(), _place: place })
    }

    /// Returns the task `id` of `caller`.
    ///
    /// # Errors
    /// Returns an error if there is no such task, or if the task belongs to another caller.
    pub(crate) fn find(&self, id: &str, caller: &Caller) -> Result<Arc<Task>, Error> {
        let owner = caller.principal();
        let task = self.lock().get(id).filter(|task| task.owner == owner).cloned();
        task.ok_or_else(|| Error::invalid_params("there is no such task"))
    }

    /// Returns the task `id`, and does not check its owner. Call this method only after a check of the owner.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Task>> {
        self.lock().get(id).cloned()
    }

    /// Removes from `ids` all ids that do not belong to tasks of `caller`. Returns a subscription to the
    /// remaining tasks. The first notifications report the current states of these tasks.
    pub(crate) fn subscribe(&self, ids: &mut Vec<String>, caller: &Caller) -> Option<Subscription<Arc<str>>> {
        ids.retain(|id| self.find(id, caller).is_ok());
        let subscription = self.0.changes.subscribe(ids.iter().map(|id| id.as_str().into()))?;
        subscription.note_everything();
        Some(subscription)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Task>>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a task until it ends. Then waits until its time to live is over, and removes the task from the store.
async fn run(task: Arc<Task>, later: Later<CallToolResult>, kept: RemoveOnDrop, bytes: Option<Share>) {
    let rest = sleep(task.options.ttl);
    if let Some(outcome) = drive(&task, later).await {
        task.settle(outcome);
    }
    drop(bytes);
    rest.await;
    drop(kept);
}

/// Polls the handler until the handler finishes, the timeout of the task passes, or the task is canceled.
/// Returns `None` if the task was canceled.
async fn drive(
    task: &Task,
    mut later: Later<CallToolResult>,
) -> Option<Result<CallToolResult, HandlerError>> {
    let limit = task.options.timeout.min(task.options.ttl);
    tokio::select! {
        biased;
        () = task.over() => None,
        outcome = timeout(limit, poll_fn(|cx| poll_caught(&mut later, cx))) => {
            Some(outcome.unwrap_or_else(|_| Err(too_late())))
        }
    }
}

/// Removes a task from the store when this guard is dropped.
struct RemoveOnDrop {
    tasks: Tasks,
    id: Arc<str>,
    _place: Share,
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        self.tasks.lock().remove(&self.id);
    }
}
