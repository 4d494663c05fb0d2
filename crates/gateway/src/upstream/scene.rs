//! An upstream whose time goes on when a test says so.

use std::sync::Arc;
use std::time::Duration;

use thruway_client::UpstreamAddr;
use thruway_net::{Clock, ManualTime};

use crate::upstream::health::ejection::Admission;
use crate::upstream::health::ejection::milliseconds;
use crate::upstream::server::Server;
use crate::upstream::{Balance, Lease, RequestKey, Upstream, UpstreamConfig};

/// An upstream and its time.
pub(crate) struct Scene {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) time: ManualTime,
    pub(crate) clock: Clock,
}

pub(crate) fn address(port: usize) -> UpstreamAddr {
    format!("127.0.0.1:{port}").parse().unwrap()
}

impl Scene {
    pub(crate) fn config(balance: Balance, weights: &[u32]) -> UpstreamConfig {
        let mut config = UpstreamConfig::new("a", (1..=weights.len()).map(address));
        config.servers.iter_mut().zip(weights).for_each(|(server, weight)| server.weight = *weight);
        UpstreamConfig { balance, ..config }
    }

    pub(crate) fn new(balance: Balance, weights: &[u32]) -> Self {
        Self::with(Self::config(balance, weights))
    }

    pub(crate) fn with(config: UpstreamConfig) -> Self {
        let time = ManualTime::default();
        time.advance(Duration::from_secs(1_000));
        Self { upstream: Arc::new(Upstream::new(config)), clock: Clock::manual(time.clone()), time }
    }

    pub(crate) fn server(&self, place: usize) -> Arc<Server> {
        self.upstream.servers.load().list[place].clone()
    }

    pub(crate) fn lease_for(&self, key: &RequestKey, tried: &[usize]) -> Option<Lease> {
        let tried: Vec<_> = tried.iter().map(|&place| self.server(place).number).collect();
        self.upstream.try_lease(key, &tried, &self.clock).ok()
    }

    pub(crate) fn lease(&self) -> Lease {
        self.lease_for(&RequestKey::default(), &[]).unwrap()
    }

    pub(crate) fn place_of(&self, lease: &Lease) -> usize {
        let servers = self.upstream.servers.load();
        servers.list.iter().position(|server| server.number == lease.server.number).unwrap()
    }

    /// Where `n` requests go of which each ends before the next.
    pub(crate) fn places(&self, tried: &[usize], n: usize) -> Vec<Option<usize>> {
        let lease = |_| self.lease_for(&RequestKey::default(), tried).map(|lease| self.place_of(&lease));
        (0..n).map(lease).collect()
    }

    /// How many of `n` requests that do not end each server gets.
    pub(crate) fn counts(&self, n: usize) -> Vec<usize> {
        let mut counts = vec![0; self.upstream.config.servers.len()];
        let leases: Vec<_> = (0..n).map(|_| self.lease()).collect();
        for lease in &leases {
            counts[self.place_of(lease)] += 1;
        }
        counts
    }

    /// How many of `n` requests each server gets if each ends at once.
    pub(crate) fn counts_of_short(&self, n: usize) -> Vec<usize> {
        let mut counts = vec![0; self.upstream.config.servers.len()];
        self.places(&[], n).into_iter().flatten().for_each(|place| counts[place] += 1);
        counts
    }

    pub(crate) fn place_of_key(&self, key: u64) -> usize {
        let key = RequestKey { hash: Some(key), ..RequestKey::default() };
        self.place_of(&self.lease_for(&key, &[]).unwrap())
    }

    /// A request to the server at `place`.
    pub(crate) fn lease_of(&self, place: usize) -> Lease {
        let server = self.server(place);
        assert!(self.upstream.begin());
        let admission = server.begin(self.now());
        assert_ne!(admission, Admission::Refused);
        Lease::new(self.upstream.clone(), server, admission, &RequestKey::default(), self.clock.now())
    }

    pub(crate) fn now(&self) -> u64 {
        milliseconds(self.clock.now())
    }
}
