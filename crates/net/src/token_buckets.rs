//! Token buckets: rate limits for many keys in a table of a fixed size.
//!
//! A bucket is stored as one number: the time at which the bucket is full again. If there is no space for a new
//! key, the table forgets the key with the fullest bucket. The forgotten key starts with a full bucket when its
//! next request arrives.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Refill time and capacity of a bucket, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenRate {
    /// Time to refill one token.
    interval: u64,
    /// Time to refill all tokens of an empty bucket.
    all: u64,
}

impl TokenRate {
    /// Returns the rate of `requests` requests in each period `per`. At most `burst` requests may arrive at once.
    /// The minimum of `requests` and of `burst` is 1.
    pub fn new(requests: u32, per: Duration, burst: u32) -> Self {
        let per = u64::try_from(per.as_nanos()).unwrap_or(u64::MAX);
        let interval = (per / u64::from(requests.max(1))).max(1);
        Self { interval, all: interval.saturating_mul(burst.max(1).into()) }
    }

    /// Returns the time to refill one token.
    pub const fn interval(self) -> Duration {
        Duration::from_nanos(self.interval)
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
/// searches the eight buckets. The keys must be unpredictable hashes. Otherwise, a client can choose a key that
/// shares a set with the key of another client.
///
/// ```
/// use std::time::Duration;
///
/// use thruway_net::{TokenBuckets, TokenRate};
///
/// let (buckets, rate) = (TokenBuckets::new(64), TokenRate::new(1, Duration::from_secs(1), 1));
/// let (key, now) = (0x1234_5678_9abc_def0, 5_000_000_000);
/// assert_eq!(buckets.take(key, rate, now), Ok(()));
/// assert_eq!(buckets.take(key, rate, now), Err(Duration::from_secs(1)));
/// ```
pub struct TokenBuckets {
    sets: Box<[Mutex<[Bucket; WAYS]>]>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Bucket {
    key: u64,
    /// Time at which the bucket is full again. A bucket that is already full may be reused for another key.
    full_at: u64,
}

impl TokenBuckets {
    /// Creates a table with space for at least `keys` keys. A key needs 17 bytes.
    pub fn new(keys: usize) -> Self {
        let sets = keys.div_ceil(WAYS).max(1);
        Self { sets: (0..sets).map(|_| Mutex::default()).collect() }
    }

    /// Takes a token from the bucket of `key`. `now` is the time in nanoseconds since any fixed time.
    ///
    /// # Errors
    /// The bucket is empty. Returns the time until a token is available.
    pub fn take(&self, key: u64, rate: TokenRate, now: u64) -> Result<(), Duration> {
        let mut set = self.set(key);
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

    /// Returns a token that [`take`](Self::take) has taken. Does nothing if the table has forgotten the key.
    pub fn give_back(&self, key: u64, rate: TokenRate) {
        let mut set = self.set(key);
        if let Some(bucket) = set.iter_mut().find(|bucket| bucket.key == key) {
            bucket.full_at = bucket.full_at.saturating_sub(rate.interval);
        }
    }

    fn set(&self, key: u64) -> MutexGuard<'_, [Bucket; WAYS]> {
        let place = usize::try_from(key >> 32).unwrap_or_default() % self.sets.len();
        self.sets[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the size of the table in bytes.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        size_of_val(&*self.sets)
    }
}

impl fmt::Debug for TokenBuckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenBuckets").field("sets", &self.sets.len()).finish()
    }
}

/// Number of buckets in a set. Eight buckets fill two cache lines. With eight buckets, the table forgets only
/// few keys before it is full.
const WAYS: usize = 8;

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, RandomState};

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const KEYS: usize = 65_536;

    #[test]
    fn burst_passes_at_once_then_requests_follow_the_rate() {
        let rate = TokenRate::new(10, Duration::from_secs(1), 3);
        let mut full_at = 0;
        for _ in 0..3 {
            full_at = rate.take(full_at, SECOND).unwrap();
        }
        assert_eq!(rate.take(full_at, SECOND), Err(Duration::from_millis(100)));
        assert_eq!(rate.take(full_at, SECOND + 99_999_999), Err(Duration::from_nanos(1)));
        full_at = rate.take(full_at, SECOND + 100_000_000).unwrap();
        assert_eq!(rate.take(full_at, SECOND + 100_000_000), Err(Duration::from_millis(100)));
        let later = 100 * SECOND;
        for _ in 0..3 {
            full_at = rate.take(full_at, later).unwrap();
        }
        assert!(rate.take(full_at, later).is_err(), "a bucket holds at most a burst");
    }

    #[test]
    fn extreme_rates_and_times_do_not_overflow() {
        let fast = TokenRate::new(u32::MAX, Duration::from_nanos(1), u32::MAX);
        assert!(fast.take(0, 0).is_ok());
        let slow = TokenRate::new(1, Duration::MAX, u32::MAX);
        assert!(slow.take(0, u64::MAX).is_ok());
        assert!(TokenRate::new(0, Duration::ZERO, 0).take(0, 5).is_ok());
    }

    #[test]
    fn returned_token_can_be_taken_again() {
        let buckets = TokenBuckets::new(64);
        let rate = TokenRate::new(1, Duration::from_secs(1), 2);
        let key = RandomState::new().hash_one("a");
        buckets.give_back(key, rate);
        assert!(buckets.take(key, rate, SECOND).is_ok() && buckets.take(key, rate, SECOND).is_ok());
        assert!(buckets.take(key, rate, SECOND).is_err());
        buckets.give_back(key, rate);
        assert!(buckets.take(key, rate, SECOND).is_ok());
        assert!(buckets.take(key, rate, SECOND).is_err());
    }

    #[test]
    fn each_key_has_its_own_bucket() {
        let buckets = TokenBuckets::new(64);
        let rate = TokenRate::new(1, Duration::from_secs(1), 1);
        let keys: Vec<u64> = (0..8).map(|key| RandomState::new().hash_one(key)).collect();
        for key in &keys {
            assert!(buckets.take(*key, rate, SECOND).is_ok());
        }
        for key in &keys {
            assert!(buckets.take(*key, rate, SECOND).is_err());
            assert!(buckets.take(*key, rate, 2 * SECOND).is_ok());
        }
    }

    #[test]
    fn bucket_memory_is_independent_of_number_of_keys() {
        let buckets = TokenBuckets::new(KEYS);
        let bytes = buckets.bytes();
        assert!(bytes <= KEYS * 17 + KEYS, "{bytes}");
        let hasher = RandomState::new();
        let rate = TokenRate::new(1, Duration::from_hours(1), 2);
        // The table keeps the key that has used both of its tokens longer than the other keys.
        let spent = hasher.hash_one("spent");
        (0..2).for_each(|_| buckets.take(spent, rate, SECOND).unwrap());
        for key in 0..1_000_000 {
            assert!(buckets.take(hasher.hash_one(key), rate, SECOND).is_ok());
        }
        assert_eq!(buckets.bytes(), bytes);
        assert!(buckets.take(spent, rate, SECOND).is_err());
    }
}
