//! The live replicas of the fleet, and the connections to them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use thruway_client::PoolConfig;
use thruway_gateway::{
    Forward, ForwardConfig, ForwardedFields, HostRewrite, Upstream, UpstreamConfig, UpstreamTls,
};
use thruway_mcp_sdk::ReplicaId;
use tokio::sync::watch;

use super::liveness::{Liveness, Probe};
use super::record::ReplicaRecord;

/// Another replica of the fleet.
pub(crate) struct Peer {
    pub(super) id: ReplicaId,
    address: SocketAddr,
    /// Sends requests to the peer listener of the replica.
    pub(super) forward: Forward,
    record: RwLock<ReplicaRecord>,
    /// Becomes `true` when the replica leaves the list.
    gone: watch::Sender<bool>,
    liveness: Liveness,
}

/// The list of live replicas, without the replica of this process.
#[derive(Default)]
pub(super) struct PeerTable(RwLock<Arc<BTreeMap<ReplicaId, Arc<Peer>>>>);

impl PeerTable {
    pub(super) fn get(&self, replica: ReplicaId) -> Option<Arc<Peer>> {
        self.all().get(&replica).cloned()
    }

    pub(super) fn all(&self) -> Arc<BTreeMap<ReplicaId, Arc<Peer>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the list. Keeps the connections to known replicas. With `keeps_missing`, also keeps replicas that
    /// `records` lacks.
    pub(super) fn replace(
        &self,
        records: Vec<(ReplicaId, ReplicaRecord)>,
        tls: Option<&UpstreamTls>,
        keeps_missing: bool,
    ) {
        let before = self.all();
        let mut peers = BTreeMap::new();
        for (id, record) in records {
            let known = before.get(&id).filter(|peer| peer.address == record.address);
            let peer = match known {
                Some(known) => {
                    *known.record.write().unwrap_or_else(PoisonError::into_inner) = record;
                    known.clone()
                }
                None => Arc::new(Peer::new(id, record, tls.cloned())),
            };
            peers.insert(id, peer);
        }
        let gone: Vec<_> = before.iter().filter(|(id, _)| !peers.contains_key(id)).collect();
        for (id, peer) in gone {
            if keeps_missing {
                peers.insert(*id, peer.clone());
            } else {
                peer.gone.send_replace(true);
            }
        }
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(peers);
    }
}

impl Peer {
    fn new(id: ReplicaId, record: ReplicaRecord, tls: Option<UpstreamTls>) -> Self {
        let address = record.address;
        let upstream = Arc::new(Upstream::new(upstream_config(&record, tls)));
        upstream.start().wait();
        let config = ForwardConfig {
            forwarded: ForwardedFields::None,
            host: HostRewrite::Server,
            via: false,
            ..ForwardConfig::default()
        };
        let forward = Forward::with_config(upstream, config);
        let (record, gone) = (RwLock::new(record), watch::Sender::new(false));
        Self { id, address, forward, record, gone, liveness: Liveness::default() }
    }

    pub(super) fn record(&self) -> ReplicaRecord {
        self.record.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts to check whether the replica answers, in the current runtime. Only the first call has an effect.
    pub(super) fn begin_checks(self: &Arc<Self>, tls: Option<&UpstreamTls>) {
        if self.liveness.begin_checks() {
            let (peer, probe) = (self.clone(), Probe::new(self.address, tls));
            tokio::spawn(async move {
                tokio::select! {
                    () = peer.liveness.check(probe) => {}
                    () = peer.gone() => {}
                }
            });
        }
    }

    /// Waits until the replica has left the list, or does not answer any longer.
    pub(super) async fn lost(&self) {
        tokio::select! {
            () = self.gone() => {}
            () = self.liveness.silent() => {}
        }
    }

    async fn gone(&self) {
        // The sender lives as long as `self`.
        let _ = self.gone.subscribe().wait_for(|is_gone| *is_gone).await;
    }
}

/// Returns the settings of the upstream for a replica. A tool call may take any time, so only a lost connection or the
/// end of the replica ends a request.
fn upstream_config(record: &ReplicaRecord, tls: Option<UpstreamTls>) -> UpstreamConfig {
    let name = format!("replica {}", record.name);
    let mut config = UpstreamConfig::new(name, [record.address.into()]);
    config.tls = tls;
    config.connect_timeout = CONNECT_TIMEOUT;
    config.retries_max = 0;
    config.exchange.timeouts.head = Duration::MAX;
    config.exchange.timeouts.content_idle = Duration::MAX;
    config.event_stream_idle = Duration::MAX;
    config.pool = PoolConfig { idle: POOL_IDLE, ..config.pool };
    config
}

/// Maximum time to connect, and maximum time of the following TLS handshake. Both together take less than two seconds.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(900);

/// Maximum idle time of a connection. The peer listener keeps connections longer (see `IDLE` in the listener), so it
/// never closes a connection that is about to be used.
const POOL_IDLE: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, port: u16) -> ReplicaRecord {
        ReplicaRecord {
            name: name.to_owned(),
            address: ([127, 0, 0, 1], port).into(),
            is_draining: false,
            sessions: 0,
            version: String::new(),
            started: 0,
        }
    }

    #[test]
    fn known_replica_keeps_its_connections_and_gets_its_new_record() {
        let (table, id) = (PeerTable::default(), ReplicaId::random());
        table.replace(vec![(id, record("a", 1))], None, false);
        let before = table.get(id).unwrap();
        table.replace(vec![(id, ReplicaRecord { is_draining: true, ..record("a", 1) })], None, false);
        let after = table.get(id).unwrap();
        assert!(Arc::ptr_eq(&before, &after) && after.record().is_draining);
        table.replace(vec![(id, record("a", 2))], None, false);
        assert!(!Arc::ptr_eq(&before, &table.get(id).unwrap()));
    }

    #[test]
    fn missing_replica_is_gone_unless_the_store_has_just_recovered() {
        let (table, id) = (PeerTable::default(), ReplicaId::random());
        table.replace(vec![(id, record("a", 1))], None, false);
        let peer = table.get(id).unwrap();
        table.replace(Vec::new(), None, true);
        assert!(table.get(id).is_some() && !*peer.gone.borrow());
        table.replace(Vec::new(), None, false);
        assert!(table.get(id).is_none() && *peer.gone.borrow());
    }
}
