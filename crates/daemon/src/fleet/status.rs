//! The state of the fleet and the numbers of requests, for operators.

use std::sync::PoisonError;

use serde::Serialize;

use super::record::ReplicaRecord;
use super::replica::Fleet;

/// The state of the fleet, as this replica sees it.
#[derive(Serialize)]
pub(crate) struct FleetStatus {
    /// The id of this replica.
    replica: String,
    replicas: Vec<ReplicaStatus>,
    /// Number of requests that other replicas have answered for this replica.
    forwarded: u64,
    /// Number of requests that this replica has answered for other replicas.
    received: u64,
    /// Number of requests whose owner was missing.
    missing_owners: u64,
}

/// A replica of the fleet.
#[derive(Serialize)]
pub(crate) struct ReplicaStatus {
    id: String,
    name: String,
    address: String,
    /// `live` or `draining`.
    state: &'static str,
    sessions: usize,
    version: String,
    /// Start time, in seconds since the Unix epoch.
    started: u64,
}

impl Fleet {
    pub(crate) fn status(&self) -> FleetStatus {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let own =
            own.as_ref().map(|own| ReplicaRecord { sessions: self.session_count(), ..own.record.clone() });
        let own = own.map(|record| ReplicaRecord { is_draining: self.heartbeat.is_draining(), ..record });
        let own = own.map(|record| ReplicaStatus::of(self.replica.to_string(), record));
        let peers = self.peers.all();
        let peers = peers.values().map(|peer| ReplicaStatus::of(peer.id.to_string(), peer.record()));
        FleetStatus {
            replica: self.replica.to_string(),
            replicas: own.into_iter().chain(peers).collect(),
            forwarded: self.counts.forwarded(),
            received: self.counts.received(),
            missing_owners: self.counts.missing_owners(),
        }
    }
}

impl ReplicaStatus {
    fn of(id: String, record: ReplicaRecord) -> Self {
        let ReplicaRecord { name, address, is_draining, sessions, version, started } = record;
        let state = if is_draining { "draining" } else { "live" };
        Self { id, name, address: address.to_string(), state, sessions, version, started }
    }
}
