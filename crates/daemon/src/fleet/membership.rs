//! Joins and leaves the fleet.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, PoisonError};

use thruway_server::{ListenAddr, RunningServer};

use super::listener;
use super::replica::Fleet;
use super::status::ForwardingCounts;
use crate::config::{Config, Failure, PeerConfig};
use crate::live_store::LiveStore;
use crate::replicas::ReplicaRegistry;

/// The membership of this process in a fleet. Dropping it ends the membership.
#[derive(Default)]
pub(crate) struct FleetMembership {
    /// `None` if this process belongs to no fleet.
    replicas: Option<ReplicaRegistry>,
    /// `None` without a peer listener.
    fleet: Option<Arc<Fleet>>,
}

impl FleetMembership {
    /// Joins the fleet, if the config has a shared store or a peer listener.
    ///
    /// # Errors
    /// The address of the peer listener is in use, or other replicas cannot use it.
    pub(crate) fn join(
        fleet: Option<&Arc<Fleet>>,
        config: &Config,
        store: &LiveStore,
    ) -> Result<Self, Failure> {
        let peers = config.shared.as_ref().and_then(|shared| shared.peers.as_ref());
        if peers.is_none() && store.runtime().is_none() {
            return Ok(Self::default());
        }
        let replicas = store.replicas();
        let membership = Self { replicas: Some(replicas.clone()), fleet: fleet.cloned() };
        if let (Some(fleet), Some(peers)) = (fleet, peers) {
            replicas.set_address(start(fleet, peers, config.workers)?);
            fleet.follow(peers.tls.clone());
        }
        replicas.join(store.store().clone()).map_err(|error| {
            Failure::new(format!("cannot start the thread for the list of replicas: {error}"))
        })?;
        tracing::info!(replica = %replicas.id(), name = replicas.name(), "joined the fleet");
        Ok(membership)
    }

    /// Marks this replica as draining. Other replicas still forward requests to it.
    pub(crate) fn drain(&self) {
        self.replicas.iter().for_each(ReplicaRegistry::drain);
    }

    /// Removes this replica from the list, so that other replicas answer for its sessions.
    pub(crate) fn leave(&self) {
        self.replicas.iter().for_each(ReplicaRegistry::leave);
    }

    /// Ends the peer listener. Call [`leave`](Self::leave) first.
    pub(crate) fn end(&self) {
        self.fleet.iter().for_each(|fleet| end_listener(fleet));
    }

    /// Returns the list of replicas. Returns `None` if this process belongs to no fleet.
    pub(crate) const fn replicas(&self) -> Option<&ReplicaRegistry> {
        self.replicas.as_ref()
    }

    /// Returns the numbers of forwarded requests. All are zero without a peer listener.
    pub(crate) fn forwarding(&self) -> ForwardingCounts {
        self.fleet.as_ref().map(|fleet| fleet.forwarding()).unwrap_or_default()
    }
}

impl Drop for FleetMembership {
    fn drop(&mut self) {
        self.leave();
        self.end();
    }
}

/// Starts the peer listener. Returns the address for other replicas.
///
/// # Errors
/// The address is in use, or other replicas cannot use it.
fn start(fleet: &Arc<Fleet>, config: &PeerConfig, workers: Option<usize>) -> Result<SocketAddr, Failure> {
    let server = listener::start(fleet, &config.listener, workers)?;
    let address = advertised(config, &server);
    *fleet.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
    address.map_err(|message| {
        end_listener(fleet);
        Failure::new(message).with_hint(ADDRESS_HINT)
    })
}

/// Ends the peer listener.
fn end_listener(fleet: &Fleet) {
    let server = fleet.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(server) = server {
        server.drain();
        server.join();
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

const ADDRESS_HINT: &str = "write `peer_address = \"IP:PORT\"` or `\"HOST:PORT\"` with an address of this machine that the other replicas reach";
