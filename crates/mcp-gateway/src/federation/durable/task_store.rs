//! The tasks of this gateway in the archive: stores records, and knows the running tasks.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thruway_net::{Admitted, LogLimit};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::archive::TaskArchive;
use super::budget::Budget;
use super::record::TaskRecord;

/// The running tasks of this gateway, and the archive for them.
pub(super) struct TaskStore {
    pub(super) archive: Arc<dyn TaskArchive>,
    watched: Mutex<HashMap<Box<str>, Arc<Watched>>>,
    /// Limits the size of all records.
    budget: Mutex<Budget>,
}

/// Wakes the watch of a task, and answers that wait for its end.
#[derive(Default)]
pub(super) struct Watched {
    /// Notified when a client has seen a change.
    pub(super) changed: Notify,
    /// Notified when the archive contains the end of the task.
    ended: Notify,
}

impl TaskStore {
    pub(super) fn new(archive: Arc<dyn TaskArchive>) -> Arc<Self> {
        let (watched, budget) = (Mutex::default(), Mutex::new(Budget::new(STORED_BYTES_MAX)));
        Arc::new(Self { archive, watched, budget })
    }

    /// Returns the value that wakes the watch of a new task. Returns `None` if there are too many tasks.
    pub(super) fn watch(&self, id: &str, ttl: Duration) -> Option<Arc<Watched>> {
        static LIMIT: LogLimit = LogLimit::new();
        let mut watched = self.lock();
        // The result counts later.
        if watched.len() >= WATCHED_MAX || !self.budget().take(RECORD_BYTES, ttl) {
            if let Some(Admitted { suppressed }) = LIMIT.admit() {
                tracing::warn!(
                    suppressed,
                    "a task is not durable: there are {WATCHED_MAX} running tasks, or the stored tasks have \
                     {STORED_BYTES_MAX} bytes"
                );
            }
            return None;
        }
        let task = Arc::<Watched>::default();
        watched.insert(id.into(), task.clone());
        Some(task)
    }

    /// Wakes the watch of a task, because a client has seen a change. Returns `false` if this gateway does not
    /// watch the task.
    pub(super) fn note_change(&self, id: &str) -> bool {
        let watched = self.lock();
        watched.get(id).inspect(|task| task.changed.notify_one()).is_some()
    }

    /// Waits until the archive contains the end of a task that a client is about to see. Waits for a limited time only.
    pub(super) async fn settle(&self, id: &str) {
        let Some(task) = self.lock().get(id).cloned() else { return };
        let mut ended = std::pin::pin!(task.ended.notified());
        // The future must wait before the watch wakes.
        ended.as_mut().enable();
        if self.note_change(id) {
            // Without the store, the client gets its answer anyway, and the watch tries again.
            let _ = timeout(SETTLE_MAX, ended).await;
        }
    }

    pub(super) fn forget(&self, id: &str) {
        let task = self.lock().remove(id);
        task.inspect(|task| task.ended.notify_waiters());
    }

    /// Stores a record. Returns `false` if the archive has failed.
    pub(super) async fn put(&self, record: &TaskRecord, ttl: Duration) -> bool {
        let mut bytes = record.to_bytes(self.archive.record_bytes_max());
        if !self.budget().fits(bytes.len().saturating_sub(RECORD_BYTES)) {
            bytes = record.to_bytes(RECORD_BYTES);
        }
        let extra = bytes.len().saturating_sub(RECORD_BYTES);
        let is_stored = self.archive.put(&record.id, record.caller.as_deref(), bytes, ttl).await.is_ok();
        if is_stored && extra > 0 {
            self.budget().take(extra, ttl);
        }
        is_stored
    }

    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Watched>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TaskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskStore").field("archive", &self.archive).finish_non_exhaustive()
    }
}

/// Maximum number of running tasks that a gateway watches.
const WATCHED_MAX: usize = 10_000;

/// Maximum size of all records of an endpoint that this gateway has stored.
const STORED_BYTES_MAX: usize = 256 << 20;

/// Size of a record without a result, as the limit counts it.
const RECORD_BYTES: usize = 1 << 10;

/// Maximum time that an answer waits for the archive. It includes a request to the member.
const SETTLE_MAX: Duration = Duration::from_millis(500);
