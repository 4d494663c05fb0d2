//! The durable tasks of a gateway.

use std::collections::HashMap;
use std::sync::Arc;

use thruway_mcp::Era;
use thruway_mcp_server::ReplicaIds;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::archive::TaskArchive;
use super::record::TaskRecord;
use super::task_store::TaskStore;
use super::watch::{AskTask, TaskWatch};

/// The durable tasks of a gateway.
#[derive(Debug)]
pub(in crate::federation) struct DurableTasks {
    store: Arc<TaskStore>,
    /// Verifies the ids of tasks that end with this gateway.
    replica_ids: Option<ReplicaIds>,
}

impl DurableTasks {
    pub(in crate::federation) fn new(
        archive: Arc<dyn TaskArchive>,
        replica_ids: Option<ReplicaIds>,
    ) -> Arc<Self> {
        Arc::new(Self { store: TaskStore::new(archive), replica_ids })
    }

    /// Stores the task that begins with `answer`, if the answer contains a task, and watches it. Ends after the archive
    /// has stored the task or has failed.
    pub(in crate::federation) async fn begin(
        &self,
        answer: &[u8],
        era: Era,
        caller: Option<String>,
        source: Arc<dyn AskTask>,
    ) {
        let Some(mut record) = TaskRecord::begun(answer, era, caller, self.store.archive.replica()) else {
            return;
        };
        if era == Era::Modern && !self.is_of_replica(&record.id) {
            // Each gateway can open the id, because the task is at its member.
            return;
        }
        record.own_id = source.own_id(&record.id);
        let ttl = record.ttl();
        let Some(watched) = self.store.watch(&record.id, ttl) else { return };
        let (store, until) = (Arc::downgrade(&self.store), Instant::now() + ttl);
        let watch = TaskWatch { store, record, source, watched, until, is_stored: false };
        // The watch continues if the client leaves during the wait.
        let (stored, is_stored) = oneshot::channel();
        tokio::spawn(watch.run(stored));
        // The error means that the watch has ended already.
        let _ = is_stored.await;
    }

    /// Returns `true` if a modern task ends with the gateway that its id names.
    fn is_of_replica(&self, id: &str) -> bool {
        self.replica_ids.as_ref().is_none_or(|ids| ids.replica_of_task(id).is_some())
    }

    /// Wakes the watch of a task, because a client has seen a change. Returns `false` if this gateway does not
    /// watch the task.
    pub(in crate::federation) fn note_change(&self, id: &str) -> bool {
        self.store.note_change(id)
    }

    /// Waits until the archive contains the end of a task that a client is about to see. Waits for a limited time only.
    pub(in crate::federation) async fn settle(&self, id: &str) {
        self.store.settle(id).await;
    }

    /// Stores the record of a task that another gateway has begun.
    pub(in crate::federation) async fn put_adopted(&self, record: &TaskRecord) {
        self.store.put(record, record.ttl()).await;
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
        let bytes = self.store.archive.get(id).await.ok()??;
        let record = TaskRecord::parse(&bytes)?;
        let is_own = record.id == id && record.era() == era && record.caller.as_deref() == caller;
        if !is_own {
            return None;
        }
        let is_live = !record.can_be_lost() || self.store.archive.is_live(&record.replica).await;
        Some(settled(record, is_live))
    }

    /// Returns the legacy tasks of a caller. Callers without a verified name have no list, because it would contain the
    /// tasks of all of them.
    pub(in crate::federation) async fn list(&self, caller: Option<&str>) -> Vec<TaskRecord> {
        let Some(caller) = caller else { return Vec::new() };
        let records = self.store.archive.list(caller).await.unwrap_or_default();
        let (mut found, mut live) = (Vec::new(), HashMap::new());
        for record in records.iter().filter_map(|bytes| TaskRecord::parse(bytes)) {
            if record.era() == Era::Legacy && record.caller.as_deref() == Some(caller) {
                if record.can_be_lost() && !live.contains_key(&record.replica) {
                    let is_live = self.store.archive.is_live(&record.replica).await;
                    live.insert(record.replica.clone(), is_live);
                }
                let is_live = live.get(&record.replica) != Some(&false);
                found.push(settled(record, is_live));
            }
        }
        found
    }

    /// Returns `true` if the gateway that began the task has ended.
    pub(in crate::federation) async fn is_orphan(&self, record: &TaskRecord) -> bool {
        !self.store.archive.is_live(&record.replica).await
    }
}

/// Marks a task as failed if it cannot continue. `is_live` is `true` if its gateway runs.
fn settled(mut record: TaskRecord, is_live: bool) -> TaskRecord {
    record.fail_if_cut();
    if record.can_be_lost() && !is_live {
        record.fail(LOST);
    }
    record
}

/// The reason for the failure of a task whose gateway has ended.
const LOST: &str = "the gateway that ran the task has ended before the task: call the tool again";
