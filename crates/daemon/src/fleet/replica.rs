//! This process as a replica of a fleet.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use thruway_gateway::UpstreamTls;
use thruway_mcp_sdk::{McpServerOptions, ReplicaId, ReplicaIds};
use thruway_server::{Handler, RunningServer};
use thruway_store::SharedKey;

use super::caller::CallerSealer;
use super::durable::DurableCounts;
use super::peers::PeerTable;
use crate::replicas::{ReplicaRegistry, ReplicaWork};

/// This process as a replica of a fleet.
pub(crate) struct Fleet {
    pub(super) replicas: ReplicaRegistry,
    pub(super) key: SharedKey,
    pub(super) callers: CallerSealer,
    pub(super) peers: PeerTable,
    pub(super) counts: FleetCounts,
    pub(super) durable_counts: DurableCounts,
    /// The MCP endpoints of this process.
    pub(super) endpoints: RwLock<BTreeMap<String, PeerEndpoint>>,
    /// The running peer listener.
    pub(super) listener: Mutex<Option<RunningServer>>,
    /// `true` if this replica refuses the requests of other replicas, because its endpoints end.
    refuses: AtomicBool,
}

/// An endpoint for forwarded requests.
pub(crate) struct PeerEndpoint {
    pub(crate) handler: Arc<dyn Handler>,
    /// Adds the sessions, pending calls and tasks of the endpoint.
    pub(crate) report: Box<dyn Fn(&mut ReplicaWork) + Send + Sync>,
}

impl Fleet {
    /// Returns the replica of this process. It forwards no requests yet.
    pub(crate) fn new(replicas: &ReplicaRegistry, key: &SharedKey) -> Arc<Self> {
        let fleet = Arc::new(Self {
            replicas: replicas.clone(),
            callers: CallerSealer::new(key),
            key: key.clone(),
            peers: PeerTable::default(),
            counts: FleetCounts::default(),
            durable_counts: DurableCounts::default(),
            endpoints: RwLock::default(),
            listener: Mutex::default(),
            refuses: AtomicBool::new(false),
        });
        let reported = Arc::downgrade(&fleet);
        replicas.report(move |work| reported.upgrade().iter().for_each(|fleet| fleet.report(work)));
        fleet
    }

    /// Returns the ids of the endpoint `endpoint`.
    pub(crate) fn ids(&self, endpoint: &str) -> ReplicaIds {
        ReplicaIds::new(self.replica(), endpoint, self.key.derive_all("ids of replicas"))
    }

    /// Sets the keys and the ids in the options of the endpoint `endpoint`.
    pub(crate) fn configure(&self, endpoint: &str, options: &mut McpServerOptions) {
        let mut keys = self.key.derive_all(&format!("request states of {endpoint}")).into_iter();
        options.state_key = keys.next();
        options.older_state_keys = keys.collect();
        options.replica_ids = Some(self.ids(endpoint));
    }

    pub(crate) fn replica(&self) -> ReplicaId {
        self.replicas.id()
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

    /// Forwards requests to the replicas of each new list.
    pub(super) fn follow(self: &Arc<Self>, tls: Option<UpstreamTls>) {
        let fleet = Arc::downgrade(self);
        self.replicas.observe(move |list| {
            let Some(fleet) = fleet.upgrade() else { return };
            fleet.peers.replace(list, tls.as_ref());
            // The heartbeat calls this function in its event loop, which runs the checks.
            fleet.peers.all().values().for_each(|peer| peer.begin_checks(tls.as_ref()));
        });
    }

    /// Adds the sessions, pending calls and tasks of all endpoints.
    fn report(&self, work: &mut ReplicaWork) {
        let endpoints = self.endpoints.read().unwrap_or_else(PoisonError::into_inner);
        endpoints.values().for_each(|endpoint| (endpoint.report)(work));
    }

    /// Returns `true` if another replica is in the list. Reads the list from the store if the list in memory does not
    /// contain the replica.
    pub(super) async fn is_live(&self, replica: ReplicaId) -> bool {
        if self.peers.get(replica).is_none() {
            self.replicas.refresh().await;
        }
        self.peers.get(replica).is_some()
    }
}

/// Numbers of forwarded requests.
#[derive(Default)]
pub(super) struct FleetCounts {
    forwarded: AtomicU64,
    received: AtomicU64,
    missing_owners: AtomicU64,
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
