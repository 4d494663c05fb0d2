//! The durable tasks of a gateway.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thruway_mcp::Era;
use thruway_mcp_server::ReplicaIds;
use thruway_net::{Admitted, LogLimit};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::archive::TaskArchive;
use super::budget::Budget;
use super::record::TaskRecord;
use super::watch::{AskTask, TaskWatch};

/// The durable tasks of a gateway.
pub(in crate::federation) struct DurableTasks {
    archive: Arc<dyn TaskArchive>,
    /// Verifies the ids of tasks that end with this gateway.
    replica_ids: Option<ReplicaIds>,
    /// The running tasks of this gateway.
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

impl DurableTasks {
    pub(in crate::federation) fn new(
        archive: Arc<dyn TaskArchive>,
        replica_ids: Option<ReplicaIds>,
    ) -> Arc<Self> {
        let (watched, budget) = (Mutex::default(), Mutex::new(Budget::new(STORED_BYTES_MAX)));
        Arc::new(Self { archive, replica_ids, watched, budget })
    }

    /// Stores the task that begins with `answer`, if the answer contains a task, and watches it. Ends after the archive
    /// has stored the task or has failed.
    pub(in crate::federation) async fn begin(
        self: &Arc<Self>,
        answer: &[u8],
        era: Era,
        caller: Option<String>,
        source: Arc<dyn AskTask>,
    ) {
        let Some(mut record) = TaskRecord::begun(answer, era, caller, self.archive.replica()) else { return };
        if era == Era::Modern && !self.is_of_replica(&record.id) {
            // Each gateway can open the id, because the task is at its member.
            return;
        }
        record.own_id = source.own_id(&record.id);
        let ttl = record.ttl();
        let Some(watched) = self.watch(&record.id, ttl) else { return };
        let until = Instant::now() + ttl;
        let is_stored = self.put(&record, ttl).await;
        let watch = TaskWatch { durable: Arc::downgrade(self), record, source, watched, until, is_stored };
        tokio::spawn(watch.run());
    }

    /// Returns `true` if a modern task ends with the gateway that its id names.
    fn is_of_replica(&self, id: &str) -> bool {
        self.replica_ids.as_ref().is_none_or(|ids| ids.replica_of_task(id).is_some())
    }

    /// Returns the value that wakes the watch of a new task. Returns `None` if there are too many tasks.
    fn watch(&self, id: &str, ttl: Duration) -> Option<Arc<Watched>> {
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

    /// Wakes the watch of a task, because a client has seen a change. Returns `false` if this gateway does not watch the
    /// task.
    pub(in crate::federation) fn note_change(&self, id: &str) -> bool {
        let watched = self.lock();
        watched.get(id).inspect(|task| task.changed.notify_one()).is_some()
    }

    /// Waits until the archive contains the end of a task that a client is about to see. Waits for a limited time only.
    pub(in crate::federation) async fn settle(&self, id: &str) {
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
    pub(in crate::federation) async fn put(&self, record: &TaskRecord, ttl: Duration) -> bool {
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

    /// Stores the record of a task that another gateway has begun.
    pub(in crate::federation) async fn put_adopted(&self, record: &TaskRecord) {
        self.put(record, record.ttl()).await;
    }

    /// Returns the task `id`, if `caller` has begun it in the same era. The task is failed if its gateway has ended and
    /// the task has ended with it.
    pub(in crate::federation) async fn find(
        &self,
        id: &str,
        era: Era,
        caller: Option<&str>,
    ) -> Option<TaskRecord> {
        if era == Era::Modern && !self.is_of_replica(id) {
            // A forged id needs no operation of the store.
            return None;
        }
        let bytes = self.archive.get(id).await.ok()??;
        let record = TaskRecord::parse(&bytes)?;
        let is_own = record.id == id && record.era() == era && record.caller.as_deref() == caller;
        if is_own { Some(self.settled(record).await) } else { None }
    }

    /// Returns the legacy tasks of a caller. Callers without a verified name have no list, because it would contain the
    /// tasks of all of them.
    pub(in crate::federation) async fn list(&self, caller: Option<&str>) -> Vec<TaskRecord> {
        let Some(caller) = caller else { return Vec::new() };
        let records = self.archive.list(caller).await.unwrap_or_default();
        let mut found = Vec::new();
        for record in records.iter().filter_map(|bytes| TaskRecord::parse(bytes)) {
            if record.era() == Era::Legacy && record.caller.as_deref() == Some(caller) {
                found.push(self.settled(record).await);
            }
        }
        found
    }

    /// Marks the task as failed if it cannot continue.
    async fn settled(&self, mut record: TaskRecord) -> TaskRecord {
        record.fail_if_cut();
        if !record.is_over() && record.own_id.is_none() && !self.archive.is_live(&record.replica).await {
            record.fail(LOST);
        }
        record
    }

    /// Returns `true` if the gateway that began the task has ended.
    pub(in crate::federation) async fn is_orphan(&self, record: &TaskRecord) -> bool {
        !self.archive.is_live(&record.replica).await
    }

    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Watched>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for DurableTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableTasks").field("archive", &self.archive).finish_non_exhaustive()
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

/// The reason for the failure of a task whose gateway has ended.
const LOST: &str = "the gateway that ran the task has ended before the task: call the tool again";
