//! Counters and latency of operations.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::health::{LatencyPercentiles, OperationCounts};

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
    buckets: [AtomicU64; OperationCounts::BOUNDS.len() + 1],
    /// The latest latencies in microseconds, in any order.
    latest: LatestLatencies,
}

/// A ring of latencies in microseconds. Zero is an unused place.
#[derive(Debug)]
struct LatestLatencies {
    next: AtomicUsize,
    latencies: Box<[AtomicU32]>,
}

impl Default for LatestLatencies {
    fn default() -> Self {
        let latencies = (0..LATEST).map(|_| AtomicU32::new(0)).collect();
        Self { next: AtomicUsize::new(0), latencies }
    }
}

impl Meter {
    pub(super) fn succeed(&self, latency: Duration) {
        let latency = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX).max(1);
        self.succeeded.fetch_add(1, Ordering::Relaxed);
        self.latency_sum_us.fetch_add(latency, Ordering::Relaxed);
        let is_within = |bound: &Duration| u128::from(latency) <= bound.as_micros();
        let bucket = OperationCounts::BOUNDS.iter().position(is_within);
        self.buckets[bucket.unwrap_or(OperationCounts::BOUNDS.len())].fetch_add(1, Ordering::Relaxed);
        let place = self.latest.next.fetch_add(1, Ordering::Relaxed) % LATEST;
        let latest = u32::try_from(latency).unwrap_or(u32::MAX);
        self.latest.latencies[place].store(latest, Ordering::Relaxed);
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

    /// Returns the percentiles of the latest latencies.
    pub(super) fn percentiles(&self) -> Option<LatencyPercentiles> {
        let latest = self.latest.latencies.iter().map(|latency| latency.load(Ordering::Relaxed));
        let mut latest: Vec<u32> = latest.filter(|latency| *latency > 0).collect();
        latest.sort_unstable();
        let at = |percent: usize| {
            let rank = (latest.len() * percent).div_ceil(100).max(1);
            latest.get(rank - 1).map(|latency| Duration::from_micros((*latency).into()))
        };
        Some(LatencyPercentiles { p50: at(50)?, p99: at(99)? })
    }

    pub(super) fn counts(&self) -> OperationCounts {
        OperationCounts {
            succeeded: self.succeeded.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
            timed_out: self.timed_out.load(Ordering::Relaxed),
            not_sent: self.not_sent.load(Ordering::Relaxed),
            latency_sum: Duration::from_micros(self.latency_sum_us.load(Ordering::Relaxed)),
            latency_buckets: std::array::from_fn(|place| self.buckets[place].load(Ordering::Relaxed)),
        }
    }
}

/// Number of latencies for percentiles. They need 4 KiB.
const LATEST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_describe_the_latest_operations() {
        let meter = Meter::default();
        assert_eq!(meter.percentiles(), None);
        meter.succeed(Duration::from_micros(7));
        let one = Duration::from_micros(7);
        assert_eq!(meter.percentiles(), Some(LatencyPercentiles { p50: one, p99: one }));
        (0..2 * LATEST).for_each(|_| meter.succeed(Duration::from_secs(10)));
        (1..=LATEST as u64).for_each(|latency| meter.succeed(Duration::from_micros(latency)));
        let LatencyPercentiles { p50, p99 } = meter.percentiles().unwrap();
        assert_eq!((p50, p99), (Duration::from_micros(512), Duration::from_micros(1_014)));
        let buckets = meter.counts().latency_buckets;
        assert_eq!(buckets, [101, 150, 250, 500, 24, 0, 0, 0, 0, 0, 2_048]);
    }

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
