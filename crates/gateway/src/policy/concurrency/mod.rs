//! Limits the number of requests in flight. A request ends after the last byte of its response, or when its
//! client has left.

pub(super) mod fleet;
pub(super) mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use thruway_server::{Request, StatusCode};

use super::fleet::SharedLimit;
use super::key::{CountBy, Keys};
use super::refusal::Refusal;
use super::verdict::Verdict;

use state::Counts;

/// Settings of the concurrency policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConcurrencyConfig {
    /// Maximum number of requests in flight, at least 1. The policy refuses further requests at once.
    pub requests_max: u32,
    /// The property by which requests are grouped. Each group has a separate limit.
    pub by: CountBy,
    /// Status of the response to a refused request. Default 503.
    pub status: StatusCode,
    /// If set, the limit holds for all replicas of a fleet together, with a policy of
    /// [`Policy::with_shared_limits`](crate::Policy::with_shared_limits). Default `None`.
    pub shared: Option<SharedLimit>,
}

#[derive(Debug)]
pub(super) struct Concurrency {
    keys: Keys,
    requests_max: u32,
    status: StatusCode,
    counts: Arc<Counts>,
}

impl ConcurrencyConfig {
    /// Returns settings that limit the requests of each route.
    pub const fn of_route(requests_max: u32) -> Self {
        Self { requests_max, by: CountBy::Route, status: StatusCode::SERVICE_UNAVAILABLE, shared: None }
    }
}

impl Concurrency {
    pub(super) fn new(config: ConcurrencyConfig) -> Self {
        let ConcurrencyConfig { requests_max, by, status, .. } = config;
        Self { keys: Keys::new(by), requests_max: requests_max.max(1), status, counts: Arc::default() }
    }

    pub(super) fn decide(&self, request: &Request<'_>, route: &str) -> Verdict<'static> {
        match self.counts.enter(self.keys.key(request, route), self.requests_max) {
            Some(permit) => Verdict::Hold(permit),
            None => Verdict::Refuse(Refusal::Concurrency(self.status)),
        }
    }
}

impl fmt::Display for ConcurrencyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests at a time, by {}", self.requests_max, self.by)?;
        self.shared.map_or(Ok(()), |shared| shared.fmt(f))
    }
}
