//! Test setup: an upstream with a clock that the test controls.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thruway_client::UpstreamAddr;
use thruway_net::{Clock, ManualTime, Worker};

use crate::upstream::health::ejection::Admission;
use crate::upstream::health::ejection::milliseconds;
use crate::upstream::server::Server;
use crate::upstream::{Balance, RequestKey, ServerSlot, Upstream, UpstreamConfig};

/// An upstream, and the time that the test controls.
pub(crate) struct Scene {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) time: ManualTime,
    pub(crate) worker: Rc<Worker>,
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
        let worker = Worker::for_test(Clock::manual(time.clone()));
        Self { upstream: Arc::new(Upstream::new(config)), worker, time }
    }

    pub(crate) fn server(&self, place: usize) -> Arc<Server> {
        self.upstream.members.load().list[place].clone()
    }

    pub(crate) fn slot_for(&self, key: &RequestKey, tried: &[usize]) -> Option<ServerSlot> {
        let tried: Vec<_> = tried.iter().map(|&place| self.server(place).number).collect();
        ServerSlot::try_select(&self.upstream, &self.worker, key, &tried).ok()
    }

    pub(crate) fn slot(&self) -> ServerSlot {
        self.slot_for(&RequestKey::default(), &[]).unwrap()
    }

    pub(crate) fn place_of(&self, slot: &ServerSlot) -> usize {
        let servers = self.upstream.members.load();
        servers.list.iter().position(|server| server.number == slot.server.number).unwrap()
    }

    /// Selects servers for `n` requests, and ends each request before the next request starts. Returns the
    /// index of the server for each request.
    pub(crate) fn places(&self, tried: &[usize], n: usize) -> Vec<Option<usize>> {
        let slot = |_| self.slot_for(&RequestKey::default(), tried).map(|slot| self.place_of(&slot));
        (0..n).map(slot).collect()
    }

    /// Selects servers for `n` requests that all stay in flight. Returns the number of requests that each
    /// server got.
    pub(crate) fn counts(&self, n: usize) -> Vec<usize> {
        let mut counts = vec![0; self.upstream.config.servers.len()];
        let slots: Vec<_> = (0..n).map(|_| self.slot()).collect();
        for slot in &slots {
            counts[self.place_of(slot)] += 1;
        }
        counts
    }

    /// Selects servers for `n` requests, and ends each request before the next request starts. Returns the
    /// number of requests that each server got.
    pub(crate) fn counts_of_short(&self, n: usize) -> Vec<usize> {
        let mut counts = vec![0; self.upstream.config.servers.len()];
        self.places(&[], n).into_iter().flatten().for_each(|place| counts[place] += 1);
        counts
    }

    pub(crate) fn place_of_key(&self, key: u64) -> usize {
        let key = RequestKey { hash: Some(key), ..RequestKey::default() };
        self.place_of(&self.slot_for(&key, &[]).unwrap())
    }

    /// Returns a slot at the server with the index `place`.
    pub(crate) fn slot_of(&self, place: usize) -> ServerSlot {
        let server = self.server(place);
        let requests_max = self.upstream.config.requests_max;
        assert!(self.upstream.connections.begin_request(requests_max));
        let admission = server.begin(self.now());
        assert_ne!(admission, Admission::Refused);
        let (key, worker) = (RequestKey::default(), self.worker.clone());
        ServerSlot::new(self.upstream.clone(), server, worker, admission, &key, self.worker.clock().now())
    }

    pub(crate) fn now(&self) -> u64 {
        milliseconds(self.worker.clock().now())
    }
}
