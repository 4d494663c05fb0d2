//! Joins and leaves the fleet.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, PoisonError};
use std::time::SystemTime;

use thruway_net::Clock;
use thruway_server::{ListenAddr, RunningServer};
use thruway_store::Store;

use super::listener;
use super::record::ReplicaRecord;
use super::replica::{Fleet, Heartbeat, OwnListener};
use super::status::FleetStatus;
use crate::config::{Config, Failure, PeerConfig};

/// The membership of this process in a fleet. Dropping it ends the membership.
#[derive(Default)]
pub(crate) struct FleetMembership(Option<Arc<Fleet>>);

impl FleetMembership {
    /// Joins the fleet, if the config has one.
    ///
    /// # Errors
    /// The address of the peer listener is in use, or other replicas cannot use it.
    pub(crate) fn join(fleet: Option<&Arc<Fleet>>, config: &Config, store: &Store) -> Result<Self, Failure> {
        if let (Some(fleet), Some(peers)) =
            (fleet, config.shared.as_ref().and_then(|shared| shared.peers.as_ref()))
        {
            start(fleet, peers, store.clone(), config.workers)?;
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
        self.0.iter().for_each(|fleet| end_listener(fleet));
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

/// Starts the peer listener, adds this replica to the list in `store`, and reads the list. Waits for the store for a
/// short time only: the replica also starts without the store.
///
/// # Errors
/// The address is in use, or other replicas cannot use it.
fn start(
    fleet: &Arc<Fleet>,
    config: &PeerConfig,
    store: Store,
    workers: Option<usize>,
) -> Result<(), Failure> {
    let server = listener::start(fleet, &config.listener, workers)?;
    let address = match advertised(config, &server) {
        Ok(address) => address,
        Err(message) => {
            end(server);
            return Err(Failure::new(message).with_hint(ADDRESS_HINT));
        }
    };
    let record = ReplicaRecord {
        name: fleet.name.clone(),
        address,
        is_draining: false,
        sessions: 0,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: now(),
    };
    if let Err(error) = Heartbeat::start(fleet, store, record.clone(), config.tls.clone()) {
        end(server);
        return Err(Failure::new(format!("cannot start the thread for the list of replicas: {error}")));
    }
    tracing::info!(replica = %fleet.replica, name = fleet.name, %address, "joined the fleet");
    *fleet.own.lock().unwrap_or_else(PoisonError::into_inner) = Some(OwnListener { server, record });
    Ok(())
}

/// Ends the peer listener.
fn end_listener(fleet: &Fleet) {
    let own = fleet.own.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(own) = own {
        end(own.server);
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
