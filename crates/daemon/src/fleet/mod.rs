//! The fleet: several processes that serve the same MCP endpoints behind one load balancer. Each session, pending call
//! and task stays on one replica. The other replicas forward its requests to this replica.

mod caller;
mod forwarding;
mod heartbeat;
mod listener;
mod peers;
mod record;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use thruway_mcp_sdk::{McpServerOptions, ReplicaId, ReplicaIds};
use thruway_net::Clock;
use thruway_server::{Handler, ListenAddr, RunningServer};
use thruway_store::{SharedKey, Store};

use crate::config::{Config, Failure, PeerConfig};
use caller::CallerSealer;
use heartbeat::Heartbeat;
use peers::PeerTable;
use record::{RecordSealer, ReplicaRecord};
use status::FleetCounts;
pub(crate) use status::FleetStatus;

/// This process as a replica of a fleet.
pub(crate) struct Fleet {
    replica: ReplicaId,
    /// The name of the replica, for operators.
    name: String,
    key: SharedKey,
    callers: CallerSealer,
    records: RecordSealer,
    peers: PeerTable,
    heartbeat: Heartbeat,
    counts: FleetCounts,
    /// The MCP endpoints of this process.
    endpoints: RwLock<BTreeMap<String, PeerEndpoint>>,
    own: Mutex<Option<OwnListener>>,
}

/// An endpoint for forwarded requests.
pub(crate) struct PeerEndpoint {
    pub(crate) handler: Arc<dyn Handler>,
    /// Returns the number of sessions.
    pub(crate) session_count: Box<dyn Fn() -> usize + Send + Sync>,
}

/// The running peer listener.
struct OwnListener {
    server: RunningServer,
    record: ReplicaRecord,
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

    /// Starts the peer listener, adds this replica to the list in `store`, and reads the list. Waits for the store for a
    /// short time only: the replica also starts without the store.
    ///
    /// # Errors
    /// The address is in use, or other replicas cannot use it.
    fn start(
        self: &Arc<Self>,
        config: &PeerConfig,
        store: Store,
        workers: Option<usize>,
    ) -> Result<(), Failure> {
        let server = listener::start(self, &config.listener, workers)?;
        let address = match advertised(config, &server) {
            Ok(address) => address,
            Err(message) => {
                end(server);
                return Err(Failure::new(message).with_hint(ADDRESS_HINT));
            }
        };
        let record = ReplicaRecord {
            name: self.name.clone(),
            address,
            is_draining: false,
            sessions: 0,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: now(),
        };
        if let Err(error) = Heartbeat::start(self, store, record.clone(), config.tls.clone()) {
            end(server);
            return Err(Failure::new(format!("cannot start the thread for the list of replicas: {error}")));
        }
        tracing::info!(replica = %self.replica, name = self.name, %address, "joined the fleet");
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = Some(OwnListener { server, record });
        Ok(())
    }

    /// Ends the peer listener.
    fn end_listener(&self) {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(own) = own {
            end(own.server);
        }
    }

    fn endpoint(&self, name: &str) -> Option<Arc<dyn Handler>> {
        let endpoints = self.endpoints.read().unwrap_or_else(PoisonError::into_inner);
        endpoints.get(name).map(|endpoint| endpoint.handler.clone())
    }

    /// Returns the number of sessions of all endpoints.
    fn session_count(&self) -> usize {
        let endpoints = self.endpoints.read().unwrap_or_else(PoisonError::into_inner);
        endpoints.values().map(|endpoint| (endpoint.session_count)()).sum()
    }

    /// Waits until the list of replicas has been read again.
    async fn refresh(&self) {
        self.heartbeat.refresh().await;
    }
}

/// The membership of this process in a fleet. Dropping it ends the membership.
#[derive(Default)]
pub(crate) struct FleetMembership(Option<Arc<Fleet>>);

impl FleetMembership {
    /// Joins the fleet, if the config has one.
    ///
    /// # Errors
    /// The address of the peer listener is in use, or other replicas cannot use it.
    pub(crate) fn join(fleet: Option<&Arc<Fleet>>, config: &Config, store: &Store) -> Result<Self, Failure> {
        if let (Some(fleet), Some(peers)) = (fleet, config.peers()) {
            fleet.start(peers, store.clone(), config.workers)?;
        }
        Ok(Self(fleet.cloned()))
    }

    /// Marks this replica as draining. Other replicas still forward requests to it.
    pub(crate) fn drain(&self) {
        self.0.iter().for_each(|fleet| fleet.heartbeat.drain());
    }

    /// Removes this replica from the list, so that other replicas answer for its sessions.
    pub(crate) fn leave(&self) {
        self.0.iter().for_each(|fleet| fleet.heartbeat.end());
    }

    /// Ends the peer listener. Call [`leave`](Self::leave) first.
    pub(crate) fn end(&self) {
        self.0.iter().for_each(|fleet| fleet.end_listener());
    }

    /// Returns the state of the fleet. Returns `None` if this process belongs to no fleet.
    pub(crate) fn status(&self) -> Option<FleetStatus> {
        self.0.as_ref().map(|fleet| fleet.status())
    }
}

impl Drop for FleetMembership {
    fn drop(&mut self) {
        self.leave();
        self.end();
    }
}

/// Returns the address that other replicas connect to.
fn advertised(config: &PeerConfig, server: &RunningServer) -> Result<SocketAddr, String> {
    let bound = match server.addresses().first() {
        Some(ListenAddr::Tcp(address)) => *address,
        _ => return Err("the peer listener has no TCP address".to_owned()),
    };
    let Some(text) = &config.address else { return Ok(bound) };
    let mut addresses = text
        .to_socket_addrs()
        .map_err(|error| format!("cannot find the address of `peer_address = \"{text}\"`: {error}"))?;
    addresses.next().ok_or_else(|| format!("`peer_address = \"{text}\"` has no address"))
}

fn end(server: RunningServer) {
    server.drain();
    server.join();
}

fn now() -> u64 {
    let since_epoch = Clock::system().time_of_day().duration_since(SystemTime::UNIX_EPOCH);
    since_epoch.unwrap_or_default().as_secs()
}

const ADDRESS_HINT: &str = "write `peer_address = \"IP:PORT\"` or `\"HOST:PORT\"` with an address of this machine that the other replicas reach";
