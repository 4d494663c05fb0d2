//! Counters and latency of operations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::health::OperationCounts;

/// Counts operations. All calls are cheap and never wait.
#[derive(Default, Debug)]
pub(super) struct Meter {
    succeeded: AtomicU64,
    rejected: AtomicU64,
    timed_out: AtomicU64,
    not_sent: AtomicU64,
    latency_sum_us: AtomicU64,
    /// Smoothed latency in microseconds. Zero before the first operation.
    latency_us: AtomicU64,
}

impl Meter {
    pub(super) fn succeed(&self, latency: Duration) {
        let latency = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX).max(1);
        self.succeeded.fetch_add(1, Ordering::Relaxed);
        self.latency_sum_us.fetch_add(latency, Ordering::Relaxed);
        let before = self.latency_us.load(Ordering::Relaxed);
        // A lost update changes the average only a little.
        let smoothed = if before == 0 { latency } else { (before * 7 + latency) / 8 };
        self.latency_us.store(smoothed.max(1), Ordering::Relaxed);
    }

    pub(super) fn reject(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn time_out(&self) {
        self.timed_out.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refuse(&self) {
        self.not_sent.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn latency(&self) -> Option<Duration> {
        match self.latency_us.load(Ordering::Relaxed) {
            0 => None,
            latency => Some(Duration::from_micros(latency)),
        }
    }

    pub(super) fn counts(&self) -> OperationCounts {
        OperationCounts {
            succeeded: self.succeeded.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
            timed_out: self.timed_out.load(Ordering::Relaxed),
            not_sent: self.not_sent.load(Ordering::Relaxed),
            latency_sum: Duration::from_micros(self.latency_sum_us.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latency_follows_recent_operations() {
        let meter = Meter::default();
        assert_eq!(meter.latency(), None);
        meter.succeed(Duration::from_millis(8));
        assert_eq!(meter.latency(), Some(Duration::from_millis(8)));
        for _ in 0..100 {
            meter.succeed(Duration::from_millis(1));
        }
        assert!(meter.latency().unwrap() < Duration::from_micros(1100));
        assert_eq!(meter.counts().latency_sum, Duration::from_millis(108));
    }
}
