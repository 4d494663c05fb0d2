//! Times in buckets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts times by the first of some bounds that they do not exceed; the last bucket is for those beyond all.
#[derive(Debug)]
pub(crate) struct Histogram<const N: usize> {
    buckets: [AtomicU64; N],
    microseconds: AtomicU64,
}

impl<const N: usize> Histogram<N> {
    /// Counts `time` by `bounds`, which are one fewer than the buckets and always the same.
    #[inline]
    pub(crate) fn record(&self, bounds: &[Duration], time: Duration) {
        let bucket = bounds.partition_point(|bound| *bound < time);
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.microseconds.fetch_add(microseconds, Ordering::Relaxed);
    }

    /// Adds what was counted so far to `buckets`, and returns the sum of all times.
    pub(crate) fn add_to(&self, buckets: &mut [u64; N]) -> Duration {
        for (sum, count) in buckets.iter_mut().zip(&self.buckets) {
            *sum += count.load(Ordering::Relaxed);
        }
        Duration::from_micros(self.microseconds.load(Ordering::Relaxed))
    }
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)), microseconds: AtomicU64::new(0) }
    }
}
