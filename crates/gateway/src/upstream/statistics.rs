//! Statistics of servers and upstreams for metrics: counters and response times.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;

use thruway_telemetry::{Exemplar, Exemplars};

use crate::Failure;
use crate::meter::{BUCKETS, DurationMeter, Histogram};
use crate::{ClientAttributes, RequestDurations, RouteMeter};

/// Statistics of a server.
#[derive(Debug, Default)]
pub(crate) struct ServerStatistics {
    opened: AtomicU64,
    reused: AtomicU64,
    failures: FailureCounts,
    durations: OnceLock<DurationMeter<ClientAttributes>>,
}

/// Statistics of an upstream, in addition to the statistics of its servers.
#[derive(Debug, Default)]
pub(crate) struct UpstreamStatistics {
    retries: AtomicU64,
    failures: FailureCounts,
    /// Times from the arrival of a request to its response, including all attempts.
    pub(crate) responses: ResponseTimes,
}

/// Number of failures for each error name, in the order of [`Failure::PROXY_ERRORS`].
#[derive(Debug, Default)]
struct FailureCounts([AtomicU64; Failure::PROXY_ERRORS.len()]);

impl FailureCounts {
    #[cold]
    fn add(&self, failure: Failure) {
        let name = failure.proxy_error();
        if let Some(place) = Failure::PROXY_ERRORS.iter().position(|other| *other == name) {
            self.0[place].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of failures for each error name in `Proxy-Status`. Leaves out error names with no
    /// failures.
    fn load(&self) -> Vec<(&'static str, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        Failure::PROXY_ERRORS.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect()
    }
}

impl ServerStatistics {
    /// Counts a request that was sent on a reused connection or on a new connection.
    #[inline]
    pub(crate) fn count_connection(&self, is_reused: bool) {
        let counter = if is_reused { &self.reused } else { &self.opened };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that has failed at the server.
    pub(crate) fn count_failure(&self, failure: Failure) {
        self.failures.add(failure);
    }

    /// Records a response. `duration` is the time until the response head arrived. `worker` is the index of
    /// the worker.
    pub(crate) fn record(&self, worker: usize, attributes: ClientAttributes, duration: Duration) {
        // If there are more workers than CPU cores, several workers share a shard.
        let new = || DurationMeter::new(available_parallelism().map_or(1, usize::from));
        self.durations.get_or_init(new).record(worker, attributes, duration);
    }

    /// Adds an exemplar for a recorded response.
    pub(crate) fn add_exemplar(&self, worker: usize, attributes: ClientAttributes, exemplar: Exemplar) {
        if let Some(durations) = self.durations.get() {
            durations.add_exemplar(worker, attributes, exemplar);
        }
    }

    /// Returns the durations of all requests, ordered by attributes.
    pub(crate) fn durations(&self) -> Vec<RequestDurations<ClientAttributes>> {
        self.durations.get().map(DurationMeter::durations).unwrap_or_default()
    }

    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    pub(crate) fn reused(&self) -> u64 {
        self.reused.load(Ordering::Relaxed)
    }

    pub(crate) fn failures(&self) -> Vec<(&'static str, u64)> {
        self.failures.load()
    }
}

impl UpstreamStatistics {
    /// Counts a retry of a request.
    pub(crate) fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request for which no server was found.
    pub(crate) fn count_failure(&self, failure: Failure) {
        self.failures.add(failure);
    }

    pub(crate) fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    pub(crate) fn failures(&self) -> Vec<(&'static str, u64)> {
        self.failures.load()
    }
}

/// Response times of an upstream. Each worker has a separate shard, as in a [`RouteMeter`]. The shards are
/// created when the first response time is recorded.
#[derive(Debug, Default)]
pub(crate) struct ResponseTimes(OnceLock<Box<[Shard]>>);

/// Counters of one worker. The alignment keeps the counters of two workers in different cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    histogram: Histogram<BUCKETS>,
    exemplars: Exemplars<BUCKETS>,
}

/// Number of responses, grouped by the time until the response head arrived.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ResponseCounts {
    /// Number of responses in each bucket of response times. [`RouteMeter::BOUNDS`] contains the upper bound
    /// of each bucket except the last. A response counts in the first bucket whose bound is at least its
    /// response time. If no bound is large enough, the response counts in the last bucket.
    pub buckets: [u64; BUCKETS],
    /// Sum of all response times.
    pub time: Duration,
    /// At most one exemplar for each bucket: the newest request with an exported trace, as far as known.
    pub exemplars: Vec<Exemplar>,
}

impl ResponseTimes {
    /// Records a response head that arrived after the duration `time`. `worker` is the index of the worker.
    pub(crate) fn record(&self, worker: usize, time: Duration) {
        // If there are more workers than CPU cores, several workers share a shard.
        let shards = self.0.get_or_init(|| {
            let shards = available_parallelism().map_or(1, usize::from);
            (0..shards).map(|_| Shard::default()).collect()
        });
        shards[worker % shards.len()].histogram.record(&RouteMeter::BOUNDS, time);
    }

    /// Adds an exemplar for a recorded response.
    pub(crate) fn add_exemplar(&self, worker: usize, exemplar: Exemplar) {
        if let Some(shards) = self.0.get() {
            let bucket = exemplar.bucket(&RouteMeter::BOUNDS);
            shards[worker % shards.len()].exemplars.record(bucket, exemplar);
        }
    }

    pub(crate) fn counts(&self) -> ResponseCounts {
        let mut counts = ResponseCounts::default();
        for Shard { histogram, exemplars } in self.0.get().into_iter().flatten() {
            exemplars.add_to(&mut counts.exemplars, &RouteMeter::BOUNDS);
            counts.time += histogram.add_to(&mut counts.buckets);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_times_are_summed_over_threads() {
        let times = ResponseTimes::default();
        assert_eq!(times.counts(), ResponseCounts::default());
        [0, 10_000, 10_001].into_iter().map(Duration::from_millis).for_each(|time| times.record(0, time));
        std::thread::scope(|scope| scope.spawn(|| times.record(1, Duration::from_millis(1))).join().unwrap());
        let ResponseCounts { buckets, time, .. } = times.counts();
        assert_eq!((buckets[0], buckets[2], buckets[14], buckets[15]), (1, 1, 1, 1));
        assert_eq!(time, Duration::from_millis(20_002));
    }
}
