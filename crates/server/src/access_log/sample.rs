//! Sampling of log lines.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use super::variable::is_failure;
use crate::record::{Record, StreamRecord};

/// Selects the requests of an access log. The log always contains requests that failed: their status is at
/// least 500, or their response is incomplete.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AccessLogSample {
    /// Share of the other requests that the log contains, from 0 to 1.
    pub ratio: f64,
    /// The log always contains requests with at least this duration. Default: none.
    pub slow: Option<Duration>,
    /// The log always contains requests with at least this status. Default: 500.
    pub status_min: u16,
}

// `ratio` is finite after the check of the config. A NaN only makes a log differ from itself.
impl Eq for AccessLogSample {}

impl AccessLogSample {
    pub(super) fn has_request(&self, record: &Record<'_>, random: &mut Random) -> bool {
        is_failure(record) || record.status.as_u16() >= self.status_min || self.has(record.duration, random)
    }

    pub(super) fn has_stream(&self, record: &StreamRecord<'_>, random: &mut Random) -> bool {
        record.is_failure() || self.has(record.duration, random)
    }

    fn has(&self, duration: Duration, random: &mut Random) -> bool {
        self.slow.is_some_and(|slow| duration >= slow) || random.next() < self.ratio
    }
}

/// A random number generator (xorshift64*). Each worker has one.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new() -> Self {
        // The state must not be zero.
        Self(RandomState::new().hash_one(0) | 1)
    }

    /// Returns a number from 0 to 1, but never 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = u32::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32).unwrap_or(0);
        f64::from(number) / (f64::from(u32::MAX) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_selects_its_share_and_slow_requests_are_always_selected() {
        let mut random = Random::new();
        let mut count = |ratio, duration| {
            let sample = AccessLogSample { ratio, slow: Some(Duration::from_secs(1)), status_min: 500 };
            (0..10_000).filter(|_| sample.has(duration, &mut random)).count()
        };
        assert_eq!(count(0.0, Duration::ZERO), 0);
        assert_eq!(count(1.0, Duration::ZERO), 10_000);
        assert_eq!(count(0.0, Duration::from_secs(1)), 10_000);
        // The standard deviation is 30.
        assert!((700..1_300).contains(&count(0.1, Duration::ZERO)));
    }
}
