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
use crate::replicas::ReplicaList;

/// Another replica of the fleet.
pub(crate) struct Peer {
    pub(super) id: ReplicaId,
    address: SocketAddr,
    /// Sends requests to the peer listener of the replica.
    pub(super) forward: Forward,
    /// Becomes `true` when the replica leaves the list.
    gone: watch::Sender<bool>,
    liveness: Liveness,
}

/// The live replicas that accept requests, without the replica of this process.
#[derive(Default)]
pub(super) struct PeerTable(RwLock<Arc<BTreeMap<ReplicaId, Arc<Peer>>>>);

impl PeerTable {
    pub(super) fn get(&self, replica: ReplicaId) -> Option<Arc<Peer>> {
        self.all().get(&replica).cloned()
    }

    pub(super) fn all(&self) -> Arc<BTreeMap<ReplicaId, Arc<Peer>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the list. Keeps the connections to known replicas.
    pub(super) fn replace(&self, list: &ReplicaList, tls: Option<&UpstreamTls>) {
        let before = self.all();
        let mut peers = BTreeMap::new();
        for (id, replica) in list {
            let Some(address) = replica.record.address else { continue };
            let known = before.get(id).filter(|peer| peer.address == address);
            let new = || Arc::new(Peer::new(*id, &replica.record.name, address, tls.cloned()));
            peers.insert(*id, known.map_or_else(new, Arc::clone));
        }
        for (_, peer) in before.iter().filter(|(id, _)| !peers.contains_key(id)) {
            peer.gone.send_replace(true);
        }
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(peers);
    }
}

impl Peer {
    fn new(id: ReplicaId, name: &str, address: SocketAddr, tls: Option<UpstreamTls>) -> Self {
        let upstream = Arc::new(Upstream::new(upstream_config(name, address, tls)));
        upstream.start().wait();
        let config = ForwardConfig {
            forwarded: ForwardedFields::None,
            host: HostRewrite::Server,
            via: false,
            ..ForwardConfig::default()
        };
        let forward = Forward::with_config(upstream, config);
        Self { id, address, forward, gone: watch::Sender::new(false), liveness: Liveness::default() }
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
fn upstream_config(name: &str, address: SocketAddr, tls: Option<UpstreamTls>) -> UpstreamConfig {
    let mut config = UpstreamConfig::new(format!("replica {name}"), [address.into()]);
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
    use thruway_store::SharedKey;

    use super::*;
    use crate::replicas::{KnownReplica, ReplicaRecord, ReplicaRegistry};

    /// Returns a list with a replica at this port.
    fn list(id: ReplicaId, port: Option<u16>) -> ReplicaList {
        let address = port.map(|port| ([127, 0, 0, 1], port).into());
        let record = ReplicaRecord { address, ..ReplicaRegistry::new("a", &SharedKey::random()).own() };
        ReplicaList::from([(id, KnownReplica { record, seen_at: Duration::ZERO })])
    }

    #[test]
    fn known_replica_keeps_its_connections_at_the_same_address() {
        let (table, id) = (PeerTable::default(), ReplicaId::random());
        table.replace(&list(id, Some(1)), None);
        let before = table.get(id).unwrap();
        table.replace(&list(id, Some(1)), None);
        assert!(Arc::ptr_eq(&before, &table.get(id).unwrap()));
        table.replace(&list(id, Some(2)), None);
        assert!(!Arc::ptr_eq(&before, &table.get(id).unwrap()));
    }

    #[test]
    fn missing_replica_is_gone() {
        let (table, id) = (PeerTable::default(), ReplicaId::random());
        table.replace(&list(id, Some(1)), None);
        let peer = table.get(id).unwrap();
        assert!(!*peer.gone.borrow());
        table.replace(&ReplicaList::new(), None);
        assert!(table.get(id).is_none() && *peer.gone.borrow());
    }

    #[test]
    fn replica_without_a_peer_listener_gets_no_requests() {
        let (table, id) = (PeerTable::default(), ReplicaId::random());
        table.replace(&list(id, None), None);
        assert!(table.get(id).is_none());
    }
}
