//! How long requests have waited for a server with room.

use std::time::Duration;

use crate::histogram::Histogram;

/// Counts those that have waited, and for how long: only who waits writes it.
#[derive(Debug, Default)]
pub(crate) struct WaitingTimes(Histogram<BUCKETS>);

/// How many requests have waited for a server with room, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WaitingCounts {
    /// Those that have waited no longer than each of [`WaitingCounts::BOUNDS`], and longer than the one before; then all others.
    pub buckets: [u64; BUCKETS],
    /// For how long all together.
    pub time: Duration,
}

impl WaitingCounts {
    /// The bounds of the buckets.
    pub const BOUNDS: [Duration; BUCKETS - 1] = [
        Duration::from_millis(1),
        Duration::from_millis(5),
        Duration::from_millis(10),
        Duration::from_millis(25),
        Duration::from_millis(50),
        Duration::from_millis(100),
        Duration::from_millis(250),
        Duration::from_millis(500),
        Duration::from_secs(1),
        Duration::from_millis(2_500),
        Duration::from_secs(5),
        Duration::from_secs(10),
        Duration::from_secs(30),
    ];
}

impl WaitingCounts {
    /// Both together.
    pub(crate) fn plus(mut self, other: Self) -> Self {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(sum, count)| *sum += count);
        self.time += other.time;
        self
    }
}

impl WaitingTimes {
    /// Counts one that has waited for `time`, whatever for.
    pub(crate) fn record(&self, time: Duration) {
        self.0.record(&WaitingCounts::BOUNDS, time);
    }

    /// What was counted so far.
    pub(crate) fn counts(&self) -> WaitingCounts {
        let mut counts = WaitingCounts::default();
        counts.time = self.0.add_to(&mut counts.buckets);
        counts
    }
}

const BUCKETS: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_in_the_first_bucket_that_it_fits() {
        let times = WaitingTimes::default();
        [0, 1, 2, 30_000, 30_001].into_iter().map(Duration::from_millis).for_each(|time| times.record(time));
        let WaitingCounts { buckets, time } = times.counts();
        assert_eq!((buckets[0], buckets[1], buckets[12], buckets[13]), (2, 1, 1, 1));
        assert_eq!((buckets.iter().sum::<u64>(), time), (5, Duration::from_millis(60_004)));
    }
}
