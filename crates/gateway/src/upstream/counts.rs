//! What has happened since the start, for metrics: only ever more.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Failure;
use crate::upstream::{Server, Upstream};

/// What a server has had to do.
#[derive(Debug, Default)]
pub(crate) struct ServerCounts {
    opened: AtomicU64,
    reused: AtomicU64,
    failures: FailureCounts,
}

/// What an upstream has had to do beside its servers.
#[derive(Debug, Default)]
pub(crate) struct UpstreamCounts {
    retries: AtomicU64,
    failures: FailureCounts,
}

/// Failures, in the order of [`Failure::PROXY_ERRORS`].
#[derive(Debug, Default)]
struct FailureCounts([AtomicU64; Failure::PROXY_ERRORS.len()]);

impl FailureCounts {
    #[cold]
    fn add(&self, failure: Failure) {
        let name = failure.proxy_error();
        if let Some(place) = Failure::PROXY_ERRORS.iter().position(|other| *other == name) {
            self.0[place].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Those that have happened, by their names in `Proxy-Status`.
    fn load(&self) -> Vec<(&'static str, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        Failure::PROXY_ERRORS.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect()
    }
}

impl ServerCounts {
    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    pub(crate) fn reused(&self) -> u64 {
        self.reused.load(Ordering::Relaxed)
    }

    pub(crate) fn failures(&self) -> Vec<(&'static str, u64)> {
        self.failures.load()
    }
}

impl Server {
    /// Notes that a request goes over a connection that was used before, or over a new one.
    #[inline]
    pub(crate) fn count_connection(&self, is_reused: bool) {
        let counter = if is_reused { &self.condition.counts.reused } else { &self.condition.counts.opened };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a request has failed here.
    pub(crate) fn count_failure(&self, failure: Failure) {
        self.condition.counts.failures.add(failure);
    }
}

impl Upstream {
    /// Notes that a request is sent again.
    pub(crate) fn count_retry(&self) {
        self.ongoing.counts.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that no server was found for a request.
    pub(crate) fn count_failure(&self, failure: Failure) {
        self.ongoing.counts.failures.add(failure);
    }

    /// How many requests were sent again, to another server or on another connection.
    pub fn retries(&self) -> u64 {
        self.ongoing.counts.retries.load(Ordering::Relaxed)
    }

    /// How many requests got no server, by their reasons' names in `Proxy-Status`; those that have occurred.
    pub fn failures(&self) -> Vec<(&'static str, u64)> {
        self.ongoing.counts.failures.load()
    }
}
