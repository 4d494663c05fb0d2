//! One server of an upstream, and how it is doing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use thruway_client::UpstreamAddr;

use super::{ServerConfig, Upstream};

/// A server, as all workers see it.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: UpstreamAddr,
    pub(crate) weight: u32,
    in_flight: AtomicUsize,
}

impl Server {
    pub(super) fn new(config: &ServerConfig) -> Self {
        Self { address: config.address.clone(), weight: config.weight, in_flight: AtomicUsize::new(0) }
    }

    /// How many requests it is answering.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }
}

/// A request that a server is answering, until this is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) place: usize,
}

impl Lease {
    pub(crate) fn new(upstream: Arc<Upstream>, place: usize) -> Self {
        upstream.servers[place].in_flight.fetch_add(1, Ordering::Relaxed);
        Self { upstream, place }
    }

    pub(crate) fn server(&self) -> &Server {
        &self.upstream.servers[self.place]
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.server().in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
impl Server {
    pub(super) fn begin_for_test(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }
}
