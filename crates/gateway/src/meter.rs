//! Counters of a route: requests, statuses and response times.
//!
//! A worker counts in a shard of its own: nothing is locked, nothing is allocated, and no cache line is
//! another worker's.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thruway_net::Worker;
use thruway_server::{Answer, Handler, Request, StatusCode};

/// Counts the requests of one route.
#[derive(Debug)]
pub struct RouteMeter {
    shards: Box<[Shard]>,
}

/// A request that is not answered yet. It is counted when it is, or when this is dropped, because its client
/// has left.
pub(crate) struct Awaited {
    /// The meter. `None` after the request is counted.
    meter: Option<Arc<RouteMeter>>,
    began: Duration,
    worker: Rc<Worker>,
}

/// Counters of one worker. Larger than a cache line pair, so that workers do not share one.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    /// By status class, from 1xx.
    classes: [AtomicU64; CLASSES],
    times: Histogram<BUCKETS>,
}

/// Counters of a [`RouteMeter`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RouteCounts {
    /// Requests by the class of their status, from 1xx to 5xx.
    pub classes: [u64; CLASSES],
    /// Number of requests by response time: for each of [`RouteMeter::BOUNDS`] those above the bound before
    /// it; then all others.
    pub buckets: [u64; BUCKETS],
    /// The sum of all response times.
    pub time: Duration,
}

impl RouteMeter {
    /// The bounds of the buckets.
    pub const BOUNDS: [Duration; BUCKETS - 1] = [
        Duration::from_micros(250),
        Duration::from_micros(500),
        Duration::from_millis(1),
        Duration::from_micros(2_500),
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
    ];

    /// One for this many workers; with more, some share.
    pub fn new(workers: usize) -> Self {
        Self { shards: (0..workers.max(1)).map(|_| Shard::default()).collect() }
    }

    /// Counts a request that is answered with `status` after `time`. `worker` is the number of the worker,
    /// from 0.
    pub fn record(&self, worker: usize, status: StatusCode, time: Duration) {
        let shard = &self.shards[worker % self.shards.len()];
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES) - 1;
        shard.classes[class].fetch_add(1, Ordering::Relaxed);
        shard.times.record(&Self::BOUNDS, time);
    }

    /// Returns the counters.
    pub fn counts(&self) -> RouteCounts {
        let mut counts = RouteCounts::default();
        for shard in &self.shards {
            for (sum, count) in counts.classes.iter_mut().zip(&shard.classes) {
                *sum += count.load(Ordering::Relaxed);
            }
            counts.time += shard.times.add_to(&mut counts.buckets);
        }
        counts
    }
}

impl Awaited {
    /// A request that comes now.
    pub(crate) fn new(meter: Arc<RouteMeter>, worker: &Rc<Worker>) -> Self {
        Self { meter: Some(meter), began: worker.clock().now_exact(), worker: worker.clone() }
    }

    /// When it has come.
    pub(crate) const fn began(&self) -> Duration {
        self.began
    }

    /// Counts it as answered with `status`.
    pub(crate) fn answered(mut self, status: StatusCode) {
        self.count(status);
    }

    fn count(&mut self, status: StatusCode) {
        if let Some(meter) = self.meter.take() {
            let elapsed = self.worker.clock().now_exact().saturating_sub(self.began);
            meter.record(self.worker.index(), status, elapsed);
        }
    }
}

/// Dropping counts requests without a response: the client has left, the drain has cut it off, or the handler
/// has panicked.
impl Drop for Awaited {
    fn drop(&mut self) {
        if self.meter.is_none() {
            return;
        }
        self.count(match std::thread::panicking() {
            true => StatusCode::INTERNAL_SERVER_ERROR,
            false if self.worker.is_cut_off() => StatusCode::SERVICE_UNAVAILABLE,
            false => CLIENT_CLOSED_REQUEST,
        });
    }
}

/// Lets a [`RouteMeter`] count the requests of a handler. [`Forward`](crate::Forward) can do that itself at a
/// lower cost.
pub struct Measured {
    handler: Arc<dyn Handler>,
    meter: Arc<RouteMeter>,
}

impl Measured {
    /// Lets `meter` count the requests of `handler`.
    pub fn new(handler: Arc<dyn Handler>, meter: Arc<RouteMeter>) -> Self {
        Self { handler, meter }
    }
}

impl Handler for Measured {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let awaited = Awaited::new(self.meter.clone(), request.worker());
        let answer = self.handler.handle(request);
        if let Answer::Now(response) = &answer {
            awaited.answered(response.status());
            return answer;
        }
        answer.map(move |response| {
            awaited.answered(response.status());
            response
        })
    }
}

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

/// Status as in access logs; never sent.
const CLIENT_CLOSED_REQUEST: StatusCode = match StatusCode::new(499) {
    Ok(status) => status,
    Err(_) => panic!("499 has three digits"),
};

const CLASSES: usize = 5;
pub(crate) const BUCKETS: usize = 16;

#[cfg(test)]
mod tests {
    use thruway_net::Clock;

    use super::*;

    #[test]
    fn a_time_is_counted_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let meter = RouteMeter::new(2);
        for (status, microseconds) in [(200, 0), (204, 250), (404, 251), (599, 10_000_000), (101, 10_000_001)]
        {
            meter.record(0, StatusCode::new(status).unwrap(), Duration::from_micros(microseconds));
        }
        let counts = meter.counts();
        assert_eq!(counts.classes, [1, 2, 0, 1, 1]);
        assert_eq!(
            (counts.buckets[0], counts.buckets[1], counts.buckets[14], counts.buckets[15]),
            (2, 1, 1, 1)
        );
        assert_eq!(counts.buckets.iter().sum::<u64>(), 5);
        assert_eq!(counts.time, Duration::from_micros(20_000_502));
    }

    #[test]
    fn every_request_is_counted_once_also_one_whose_client_has_left() {
        let meter = Arc::new(RouteMeter::new(1));
        let worker = Worker::for_test(Clock::system());
        Awaited::new(meter.clone(), &worker).answered(StatusCode::OK);
        assert_eq!(meter.counts().classes, [0, 1, 0, 0, 0]);
        drop(Awaited::new(meter.clone(), &worker));
        assert_eq!(meter.counts().classes, [0, 1, 0, 1, 0]);
        worker.cut_off_for_test();
        drop(Awaited::new(meter.clone(), &worker));
        assert_eq!(meter.counts().classes, [0, 1, 0, 1, 1], "the server has not waited any longer");
    }
}
