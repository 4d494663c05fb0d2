//! Rate limits with a token bucket for each key.
//!
//! A bucket is stored as one number: the time at which the bucket is full again. The table of buckets has a
//! fixed size. If there is no space for a new key, the table forgets the key with the fullest bucket. The
//! forgotten key starts with a full bucket when its next request arrives.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use thruway_server::{Request, StatusCode};

use super::key::{CountBy, Keys};
use super::refusal::Refusal;
use super::verdict::Verdict;

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
    /// Maximum number of keys that the policy remembers. Each key needs 17 bytes. Default
    /// [`KEYS_MAX`](Self::KEYS_MAX).
    pub keys_max: usize,
}

#[derive(Debug)]
pub(super) struct RateLimit {
    keys: Keys,
    rate: Rate,
    buckets: Buckets,
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

/// Refill time and capacity of a bucket, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// Time to refill one token.
    interval: u64,
    /// Time to refill all tokens of an empty bucket.
    all: u64,
}

impl Rate {
    fn new(requests: u32, per: Duration, burst: u32) -> Self {
        let per = u64::try_from(per.as_nanos()).unwrap_or(u64::MAX);
        let interval = (per / u64::from(requests.max(1))).max(1);
        Self { interval, all: interval.saturating_mul(burst.max(1).into()) }
    }

    /// Takes a token from a bucket that will be full at `full_at`. Returns the new time at which the bucket
    /// will be full. If the bucket is empty, returns the time until a token is available.
    fn take(self, full_at: u64, now: u64) -> Result<u64, Duration> {
        let full_at = full_at.max(now).saturating_add(self.interval);
        match (full_at - now).checked_sub(self.all) {
            None | Some(0) => Ok(full_at),
            Some(too_much) => Err(Duration::from_nanos(too_much)),
        }
    }
}

/// The buckets of all keys, in sets of eight. Each set has a lock, which a request holds only while it
/// searches the eight buckets.
struct Buckets {
    sets: Box<[Mutex<[Bucket; WAYS]>]>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Bucket {
    key: u64,
    /// Time at which the bucket is full again. A bucket that is already full may be reused for another key.
    full_at: u64,
}

impl Buckets {
    /// Creates a table with space for at least `keys` keys.
    fn new(keys: usize) -> Self {
        let sets = keys.div_ceil(WAYS).max(1);
        Self { sets: (0..sets).map(|_| Mutex::default()).collect() }
    }

    /// Takes a token from the bucket of `key`. If the bucket is empty, returns the time until a token is
    /// available.
    fn take(&self, key: u64, rate: Rate, now: u64) -> Result<(), Duration> {
        let place = usize::try_from(key >> 32).unwrap_or_default() % self.sets.len();
        let mut set = self.sets[place].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = set.iter_mut().find(|bucket| bucket.key == key && bucket.full_at > now) {
            bucket.full_at = rate.take(bucket.full_at, now)?;
            return Ok(());
        }
        let full_at = rate.take(now, now)?;
        if let Some(fullest) = set.iter_mut().min_by_key(|bucket| bucket.full_at) {
            *fullest = Bucket { key, full_at };
        }
        Ok(())
    }

    /// Returns the size of the table in bytes.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        size_of_val(&*self.sets)
    }
}

impl fmt::Debug for Buckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buckets").field("sets", &self.sets.len()).finish()
    }
}

impl fmt::Display for RateLimitConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, per, burst, by, .. } = self;
        write!(f, "{requests} requests in {per:?}, {burst} at once, by {by}")
    }
}

/// Maximum number of routes with separate buckets. If a config uses one policy in more routes, some buckets
/// may be reset. Few configs do so.
const ROUTES_MAX: usize = 4096;

/// Number of buckets in a set. Eight buckets fill two cache lines. With eight buckets, the table forgets only
/// few keys before it is full.
const WAYS: usize = 8;
