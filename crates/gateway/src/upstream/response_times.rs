//! How long servers take to answer, for those who operate the gateway.

use std::sync::OnceLock;
use std::thread::available_parallelism;
use std::time::Duration;

use thruway_net::Worker;

use crate::RouteMeter;
use crate::histogram::Histogram;
use crate::meter::BUCKETS;
use crate::upstream::{Server, Upstream};

/// Counts the response times of a server or an upstream. A worker counts in a shard of its own, as in a [`RouteMeter`]; there are none as
/// long as nobody counts.
#[derive(Debug, Default)]
pub(crate) struct ResponseTimes(OnceLock<Box<[Shard]>>);

/// What one worker has counted. Larger than what processors fetch at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Histogram<BUCKETS>);

/// How many responses have come so far, by the time until their heads were there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ResponseCounts {
    /// Those within each of [`RouteMeter::BOUNDS`], and not within the one before; then all others.
    pub buckets: [u64; BUCKETS],
    /// The sum of all times.
    pub time: Duration,
}

impl ResponseTimes {
    fn record(&self, time: Duration) {
        // More workers than cores share shards.
        let shards = self.0.get_or_init(|| {
            let shards = available_parallelism().map_or(1, usize::from);
            (0..shards).map(|_| Shard::default()).collect()
        });
        let worker = Worker::current().map_or(0, |worker| worker.index());
        shards[worker % shards.len()].0.record(&RouteMeter::BOUNDS, time);
    }

    fn counts(&self) -> ResponseCounts {
        let mut counts = ResponseCounts::default();
        for Shard(times) in self.0.get().into_iter().flatten() {
            counts.time += times.add_to(&mut counts.buckets);
        }
        counts
    }
}

impl Server {
    /// Notes that the head of a response was there after `time`.
    pub(crate) fn record_response(&self, time: Duration) {
        self.condition.responses.record(time);
    }

    pub(crate) fn response_counts(&self) -> ResponseCounts {
        self.condition.responses.counts()
    }
}

impl Upstream {
    /// Notes that the head of a response was there after `time`, whatever was waited for and however many servers were asked.
    pub(crate) fn record_response(&self, time: Duration) {
        self.ongoing.responses.record(time);
    }

    /// How long requests have taken until they were answered by a server, if they were [timed](crate::Forward::timed).
    pub fn response_counts(&self) -> ResponseCounts {
        self.ongoing.responses.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_whoever_counts_them() {
        let times = ResponseTimes::default();
        assert_eq!(times.counts(), ResponseCounts::default());
        [0, 10_000, 10_001].into_iter().map(Duration::from_millis).for_each(|time| times.record(time));
        std::thread::scope(|scope| scope.spawn(|| times.record(Duration::from_millis(1))).join().unwrap());
        let ResponseCounts { buckets, time } = times.counts();
        assert_eq!((buckets[0], buckets[2], buckets[14], buckets[15]), (1, 1, 1, 1));
        assert_eq!(time, Duration::from_millis(20_002));
    }
}
