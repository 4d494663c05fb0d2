//! Rate limits with a token bucket for each key.

pub(super) mod delay;
pub(super) mod fleet;

use std::fmt;
use std::time::Duration;

use thruway_net::{TokenBuckets, TokenRate};
use thruway_server::{Request, StatusCode};

use super::fleet::SharedLimit;
use super::key::{CountBy, Keys};
use super::refusal::Refusal;
use super::verdict::Verdict;

/// Settings for the delay of requests above a rate limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayConfig {
    /// Maximum time that a request waits. The policy refuses a request at once if it would wait longer.
    pub time_max: Duration,
    /// Maximum number of requests that wait at the policy, with all keys together. The policy refuses further requests
    /// at once. Default [`REQUESTS_MAX`](Self::REQUESTS_MAX).
    pub requests_max: usize,
}

impl DelayConfig {
    /// Default maximum number of waiting requests.
    pub const REQUESTS_MAX: usize = 1_000;

    /// Returns settings that delay requests by up to `time_max`.
    pub const fn up_to(time_max: Duration) -> Self {
        Self { time_max, requests_max: Self::REQUESTS_MAX }
    }
}

/// Settings of the rate limit policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RateLimitConfig {
    /// Maximum average number of requests in each period `per`, at least 1.
    pub requests: u32,
    /// Length of the period for `requests`.
    pub per: Duration,
    /// Maximum number of requests that may arrive at once, at least 1.
    pub burst: u32,
    /// The property by which requests are grouped. Each group has a separate limit.
    pub by: CountBy,
    /// Status of the response to a refused request. Default 429.
    pub status: StatusCode,
    /// Maximum number of keys that the policy remembers. Each key needs 17 bytes, and 107 bytes if the limit is
    /// shared. Default [`KEYS_MAX`](Self::KEYS_MAX).
    pub keys_max: usize,
    /// If set, the limit holds for all replicas of a fleet together, with a policy of
    /// [`Policy::with_shared_limits`](crate::Policy::with_shared_limits). Default `None`.
    pub shared: Option<SharedLimit>,
    /// If set, requests above the limit wait until the limit admits them. A shared limit ignores this setting. Default
    /// `None`: requests above the limit are refused at once.
    pub delay: Option<DelayConfig>,
}

#[derive(Debug)]
pub(super) struct RateLimit {
    keys: Keys,
    rate: TokenRate,
    buckets: TokenBuckets,
    status: StatusCode,
    burst: u32,
}

impl RateLimitConfig {
    /// Default maximum number of remembered keys. They need 1.1 MiB.
    pub const KEYS_MAX: usize = 65_536;

    /// Returns settings that allow `requests` requests per second for each client, and bursts of the same
    /// size.
    pub const fn per_second(requests: u32) -> Self {
        Self {
            requests,
            per: Duration::from_secs(1),
            burst: requests,
            by: CountBy::Address,
            status: StatusCode::TOO_MANY_REQUESTS,
            keys_max: Self::KEYS_MAX,
            shared: None,
            delay: None,
        }
    }
}

impl RateLimit {
    pub(super) fn new(config: &RateLimitConfig) -> Self {
        Self {
            keys: Keys::new(config.by.clone()),
            rate: TokenRate::new(config.requests, config.per, config.burst),
            buckets: TokenBuckets::new(keys_max(config)),
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
        write!(f, "{requests} requests in {per:?}, {burst} at once, by {by}")?;
        if let Some(DelayConfig { time_max, requests_max }) = self.delay {
            write!(f, ", {requests_max} more delayed by up to {time_max:?}")?;
        }
        self.shared.map_or(Ok(()), |shared| shared.fmt(f))
    }
}

fn keys_max(config: &RateLimitConfig) -> usize {
    match config.by {
        CountBy::All => 1,
        CountBy::Route => ROUTES_MAX,
        CountBy::Address | CountBy::Header(_) | CountBy::User => config.keys_max,
    }
}

/// Maximum number of routes with separate buckets. If a config uses one policy in more routes, some buckets
/// may be reset. Few configs do so.
const ROUTES_MAX: usize = 4096;
