//! Average response time of a server, as a moving average that is sensitive to peaks (peak EWMA).
//!
//! If a response is slower than the average, its time becomes the new average immediately. Faster responses
//! lower the average gradually. Without responses, the average decays, so that a slow server gets requests
//! again. Finagle and linkerd use the same average.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The average and the time of its last update, packed into one number, so that both are replaced
/// atomically. The upper 32 bits contain the average in microseconds. The lower 32 bits contain the time in
/// milliseconds, which wraps after seven weeks.
#[derive(Debug, Default)]
pub(crate) struct Latency(AtomicU64);

#[derive(Clone, Copy)]
struct Average {
    microseconds: u32,
    at: u32,
}

impl Latency {
    /// Records that a response took the time `elapsed`.
    pub(crate) fn record(&self, elapsed: Duration, now: u64) {
        let sample = u32::try_from(elapsed.as_micros()).unwrap_or(u32::MAX).max(1);
        self.update(|average| average.with(sample, now));
    }

    /// Records that a request failed after the time `elapsed`. The failure counts as a response that took ten
    /// times as long as the average. A single failure raises the average only for a short time. After
    /// repeated failures, the server counts as the slowest server.
    pub(crate) fn record_failure(&self, elapsed: Duration, now: u64) {
        let elapsed = u32::try_from(elapsed.as_micros()).unwrap_or(u32::MAX);
        self.update(|average| {
            let penalty = average
                .microseconds
                .saturating_mul(10)
                .clamp(FAILURE_MICROSECONDS_MIN, FAILURE_MICROSECONDS_MAX);
            average.with(penalty.max(elapsed), now)
        });
    }

    /// Returns the average response time at `now`, in microseconds. Returns 0 if no response time is known.
    pub(crate) fn microseconds(&self, now: u64) -> u64 {
        let average = Average::unpack(self.0.load(Ordering::Relaxed));
        let faded = average.faded(now);
        // A known average never decays to 0, because 0 means that no response time is known.
        if average.microseconds == 0 { 0 } else { u64::from(faded.max(1)) }
    }

    fn update(&self, next: impl Fn(Average) -> Average) {
        let step = |packed| Some(next(Average::unpack(packed)).pack());
        // The closure always returns `Some`, so the update succeeds.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
    }
}

impl Average {
    const fn unpack(packed: u64) -> Self {
        Self { microseconds: (packed >> 32) as u32, at: (packed & LOWER) as u32 }
    }

    const fn pack(self) -> u64 {
        (self.microseconds as u64) << 32 | self.at as u64
    }

    /// Returns the average at `now`, after its decay since the last response.
    fn faded(self, now: u64) -> u32 {
        scale(self.microseconds, self.share_left(now))
    }

    /// Returns the average after adding the response time `sample`.
    fn with(self, sample: u32, now: u64) -> Self {
        let microseconds = if sample >= self.microseconds {
            sample
        } else {
            let share = self.share_left(now);
            scale(self.microseconds, share) + scale(sample, 1.0 - share)
        };
        Self { microseconds: microseconds.max(1), at: (now & LOWER) as u32 }
    }

    /// Returns the share of the old average that is left at `now`, from 0 to 1.
    fn share_left(self, now: u64) -> f64 {
        let elapsed = ((now & LOWER) as u32).wrapping_sub(self.at);
        // Another worker may have recorded a time that is slightly later than `now`.
        let elapsed = if elapsed > u32::MAX / 2 { 0 } else { elapsed };
        (-f64::from(elapsed) / DECAY_MILLISECONDS).exp()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`share` is from 0 to 1, so that the product is from 0 to `microseconds`"
)]
fn scale(microseconds: u32, share: f64) -> u32 {
    (f64::from(microseconds) * share) as u32
}

/// Time in milliseconds after which the old average has decayed to about a third.
const DECAY_MILLISECONDS: f64 = 10_000.0;

const FAILURE_MICROSECONDS_MIN: u32 = 100_000;
const FAILURE_MICROSECONDS_MAX: u32 = 10_000_000;

const LOWER: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn slow_response_counts_at_once_and_fast_ones_gradually() {
        let latency = Latency::default();
        assert_eq!(latency.microseconds(0), 0);
        latency.record(ms(5), 0);
        assert_eq!(latency.microseconds(0), 5_000);
        latency.record(ms(100), 10);
        assert_eq!(latency.microseconds(10), 100_000);
        latency.record(ms(5), 20);
        assert!((99_000..100_000).contains(&latency.microseconds(20)));
        (1..=30).for_each(|second| latency.record(ms(5), second * 1_000));
        assert!((5_000..15_000).contains(&latency.microseconds(30_000)), "{}", latency.microseconds(30_000));
    }

    #[test]
    fn latency_decays_without_responses_but_stays_known() {
        let latency = Latency::default();
        latency.record(ms(100), 0);
        assert!((36_000..37_000).contains(&latency.microseconds(10_000)));
        assert_eq!(latency.microseconds(1_000_000), 1);
    }

    #[test]
    fn each_failure_counts_as_ten_times_slower_up_to_a_maximum() {
        let latency = Latency::default();
        latency.record(ms(1), 0);
        let after_failures = [100, 1_000, 10_000, 10_000].map(|milliseconds| {
            latency.record_failure(ms(0), 0);
            (latency.microseconds(0), milliseconds * 1_000)
        });
        assert!(after_failures.iter().all(|(is, expected)| is == expected), "{after_failures:?}");
        latency.record_failure(ms(60_000), 0);
        assert_eq!(latency.microseconds(0), 60_000_000);
    }

    #[test]
    fn latency_survives_clock_wrap_and_small_steps_back() {
        let latency = Latency::default();
        let before_wrap = u64::from(u32::MAX) - 5;
        latency.record(ms(100), before_wrap);
        assert!(latency.microseconds(before_wrap + 10) > 99_000);
        assert_eq!(latency.microseconds(before_wrap - 10), 100_000);
    }
}
