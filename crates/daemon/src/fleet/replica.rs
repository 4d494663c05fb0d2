//! This process as a replica of a fleet.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use thruway_mcp_sdk::{McpServerOptions, ReplicaId, ReplicaIds};
use thruway_server::{Handler, RunningServer};
use thruway_store::SharedKey;
use tokio::sync::{Notify, watch};

use super::caller::CallerSealer;
use super::peers::PeerTable;
use super::record::{RecordSealer, ReplicaRecord};

/// This process as a replica of a fleet.
pub(crate) struct Fleet {
    pub(super) replica: ReplicaId,
    /// The name of the replica, for operators.
    pub(super) name: String,
    pub(super) key: SharedKey,
    pub(super) callers: CallerSealer,
    pub(super) records: RecordSealer,
    pub(super) peers: PeerTable,
    pub(super) heartbeat: Heartbeat,
    pub(super) counts: FleetCounts,
    /// The MCP endpoints of this process.
    pub(super) endpoints: RwLock<BTreeMap<String, PeerEndpoint>>,
    pub(super) own: Mutex<Option<OwnListener>>,
    /// `true` if this replica refuses the requests of other replicas, because its endpoints end.
    refuses: AtomicBool,
}

/// Controls the thread that keeps the record of this replica in the store, and reads the records of all replicas.
#[derive(Default)]
pub(super) struct Heartbeat {
    /// Requests a new list from the store.
    pub(super) wanted: Notify,
    /// Number of attempts to read the list.
    pub(super) rounds: watch::Sender<u64>,
    pub(super) is_draining: watch::Sender<bool>,
    pub(super) is_ending: watch::Sender<bool>,
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
}

/// An endpoint for forwarded requests.
pub(crate) struct PeerEndpoint {
    pub(crate) handler: Arc<dyn Handler>,
    /// Returns the number of sessions.
    pub(crate) session_count: Box<dyn Fn() -> usize + Send + Sync>,
}

/// The running peer listener.
pub(super) struct OwnListener {
    pub(super) server: RunningServer,
    pub(super) record: ReplicaRecord,
}

impl Fleet {
    /// Returns a replica that is not in the list of the fleet yet.
    pub(crate) fn new(name: &str, key: &SharedKey) -> Arc<Self> {
        Arc::new(Self {
            replica: ReplicaId::random(),
            name: name.to_owned(),
            callers: CallerSealer::new(key),
            records: RecordSealer::new(key),
            key: key.clone(),
            peers: PeerTable::default(),
            heartbeat: Heartbeat::default(),
            counts: FleetCounts::default(),
            endpoints: RwLock::default(),
            own: Mutex::default(),
            refuses: AtomicBool::new(false),
        })
    }

    /// Returns the ids of the endpoint `endpoint`.
    pub(crate) fn ids(&self, endpoint: &str) -> ReplicaIds {
        ReplicaIds::new(self.replica, endpoint, self.key.derive_all("ids of replicas"))
    }

    /// Sets the keys and the ids in the options of the endpoint `endpoint`.
    pub(crate) fn configure(&self, endpoint: &str, options: &mut McpServerOptions) {
        let mut keys = self.key.derive_all(&format!("request states of {endpoint}")).into_iter();
        options.state_key = keys.next();
        options.older_state_keys = keys.collect();
        options.replica_ids = Some(self.ids(endpoint));
    }

    pub(crate) const fn replica(&self) -> ReplicaId {
        self.replica
    }

    /// Replaces the endpoints for forwarded requests.
    pub(crate) fn serve(&self, endpoints: BTreeMap<String, PeerEndpoint>) {
        *self.endpoints.write().unwrap_or_else(PoisonError::into_inner) = endpoints;
    }

    /// Refuses later requests of other replicas, which then answer that they do not know the session, the pending
    /// call or the task.
    pub(crate) fn refuse(&self) {
        self.refuses.store(true, Ordering::Release);
    }

    pub(super) fn refuses(&self) -> bool {
        self.refuses.load(Ordering::Acquire)
    }

    pub(super) fn endpoint(&self, name: &str) -> Option<Arc<dyn Handler>> {
        let endpoints = self.endpoints.read().unwrap_or_else(PoisonError::into_inner);
        endpoints.get(name).map(|endpoint| endpoint.handler.clone())
    }

    /// Returns the number of sessions of all endpoints.
    pub(super) fn session_count(&self) -> usize {
        let endpoints = self.endpoints.read().unwrap_or_else(PoisonError::into_inner);
        endpoints.values().map(|endpoint| (endpoint.session_count)()).sum()
    }

    /// Waits until the list of replicas has been read again.
    pub(super) async fn refresh(&self) {
        self.heartbeat.refresh().await;
    }
}

/// Numbers of forwarded requests and of foreign records.
#[derive(Default)]
pub(super) struct FleetCounts {
    forwarded: AtomicU64,
    received: AtomicU64,
    missing_owners: AtomicU64,
    foreign: AtomicUsize,
}

impl FleetCounts {
    pub(super) fn count_forwarded(&self) {
        self.forwarded.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_received(&self) {
        self.received.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_missing_owner(&self) {
        self.missing_owners.fetch_add(1, Ordering::Relaxed);
    }

    /// Stores the number of records that do not belong to this fleet. Logs a change.
    pub(super) fn note_foreign(&self, foreign: usize) {
        if self.foreign.swap(foreign, Ordering::Relaxed) < foreign {
            tracing::warn!(
                "the store contains {foreign} records of replicas with another key: use the same `[shared] key` for \
                 all replicas of a fleet, and another `prefix` for each fleet"
            );
        }
    }

    /// Returns the number of requests that other replicas have answered for this replica.
    pub(super) fn forwarded(&self) -> u64 {
        self.forwarded.load(Ordering::Relaxed)
    }

    /// Returns the number of requests that this replica has answered for other replicas.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Returns the number of requests whose owner was not in the list or did not answer.
    pub(super) fn missing_owners(&self) -> u64 {
        self.missing_owners.load(Ordering::Relaxed)
    }
}
