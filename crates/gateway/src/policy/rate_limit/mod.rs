//! Only so many requests in a time: a bucket of tokens for each key, which are put back at a steady rate.
//!
//! A bucket is one number, the time at which it will be full again. What is remembered is of a size that does not change: where
//! there is no room for a new key, the one that is nearest to a full bucket is forgotten, and begins with a full one.

mod decide;
mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use thruway_server::{Request, StatusCode};

use super::key::{CountBy, Keys};
use super::{Refusal, Verdict};

use decide::Rate;
use state::Buckets;

/// How many requests there may be in a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RateLimitConfig {
    /// How many requests in `per`, in the long run; at least 1.
    pub requests: u32,
    /// In which time.
    pub per: Duration,
    /// How many at once; at least 1.
    pub burst: u32,
    /// Which requests are counted together.
    pub by: CountBy,
    /// How those beyond are answered. Default 429.
    pub status: StatusCode,
    /// How many keys are remembered, 17 octets each. Default [`KEYS_MAX`](Self::KEYS_MAX).
    pub keys_max: usize,
}

/// The policy.
#[derive(Debug)]
pub(super) struct RateLimit {
    keys: Keys,
    rate: Rate,
    buckets: Buckets,
    status: StatusCode,
    burst: u32,
}

impl RateLimitConfig {
    /// How many keys are remembered if nothing else is said: 1.1 MiB.
    pub const KEYS_MAX: usize = 65_536;

    /// So many requests in a second for each client, and as many at once.
    pub const fn per_second(requests: u32) -> Self {
        Self {
            requests,
            per: Duration::from_secs(1),
            burst: requests,
            by: CountBy::Address,
            status: StatusCode::TOO_MANY_REQUESTS,
            keys_max: Self::KEYS_MAX,
        }
    }
}

impl RateLimit {
    pub(super) fn new(config: &RateLimitConfig) -> Self {
        let keys_max = match config.by {
            CountBy::Route => ROUTES_MAX,
            CountBy::Address | CountBy::Header(_) => config.keys_max,
        };
        Self {
            keys: Keys::new(config.by.clone()),
            rate: Rate::new(config.requests, config.per, config.burst),
            buckets: Buckets::new(keys_max),
            status: config.status,
            burst: config.burst,
        }
    }

    pub(super) fn decide(&self, request: &Request<'_>, route: &str) -> Verdict<'static> {
        let now = u64::try_from(request.worker().clock().now_exact().as_nanos()).unwrap_or(u64::MAX);
        match self.buckets.take(self.keys.key(request, route), self.rate, now) {
            Ok(()) => Verdict::Continue,
            Err(wait) => Verdict::Refuse(Refusal::Rate { status: self.status, burst: self.burst, wait }),
        }
    }
}

impl fmt::Display for RateLimitConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, per, burst, by, .. } = self;
        write!(f, "{requests} requests in {per:?}, {burst} at once, by {by}")
    }
}

/// A policy is seldom that of more routes; if it is, some of their buckets may be forgotten.
const ROUTES_MAX: usize = 4096;
