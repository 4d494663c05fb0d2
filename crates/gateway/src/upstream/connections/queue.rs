//! The queue in which requests wait if no server has capacity. First attempts are served in the order of
//! their arrival.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use thruway_net::Clock;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::Failure;
use crate::meter::Histogram;

/// Limits of the queue in which requests wait if no server has capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueConfig {
    /// Maximum number of waiting requests. Further requests get 503. Default 1000. With 0, no request
    /// waits.
    pub length_max: usize,
    /// Maximum waiting time, after which a request gets 503. Default 5 s.
    pub timeout: Duration,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self { length_max: 1_000, timeout: Duration::from_secs(5) }
    }
}

/// Reason why a request gets no server now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unavailable {
    /// No server has capacity.
    Busy,
    /// No server is available.
    NoServer,
}

/// The waiting requests of all workers.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: AtomicUsize,
    /// First attempts of requests. A first attempt can use the free capacity of any server.
    first_attempts: Line,
    /// Retries of requests. A retry needs capacity at a server where the request has not failed.
    retries: Line,
    times: WaitingTimes,
}

/// One of the two parts of the queue: first attempts or retries.
#[derive(Debug, Default)]
struct Line {
    waiting: AtomicUsize,
    capacity_freed: Notify,
}

/// The entry of a waiting request in the queue. Dropping the entry removes the request from the queue.
#[derive(Debug)]
struct QueueEntry<'q> {
    queue: &'q Queue,
    line: &'q Line,
    /// `true` if the request may try at once: it is a retry, or no other first attempt waits before it.
    is_next: bool,
}

impl Queue {
    /// Returns the number of waiting requests.
    pub(crate) fn len(&self) -> usize {
        // This counter and the counters of the servers have the ordering `SeqCst`. With this ordering, a
        // waiting request cannot miss free capacity. Either the worker that frees capacity sees the waiting
        // request, or the waiting request sees the free capacity.
        self.waiting.load(Ordering::SeqCst)
    }

    /// Returns the number of requests that have waited, and their waiting times.
    pub(crate) fn counts(&self) -> WaitingCounts {
        self.times.counts()
    }

    /// Returns `true` if a new request may try at once: it is a retry, or no first attempt waits.
    #[inline]
    pub(crate) fn is_next(&self, is_retry: bool) -> bool {
        is_retry || self.first_attempts.waiting.load(Ordering::SeqCst) == 0
    }

    /// Wakes waiting requests, because a server has free capacity.
    #[inline]
    pub(crate) fn notify_capacity(&self) {
        if self.len() > 0 {
            self.announce_capacity();
        }
    }

    #[cold]
    fn announce_capacity(&self) {
        // All retries wake up, because some retries cannot use the free capacity. Few retries wait, because
        // the retry budget limits retries.
        self.retries.capacity_freed.notify_waiters();
        if self.first_attempts.waiting.load(Ordering::SeqCst) > 0 {
            self.first_attempts.capacity_freed.notify_one();
        }
    }

    /// Wakes all waiting requests, because the servers have changed.
    pub(crate) fn notify_all(&self) {
        self.retries.capacity_freed.notify_waiters();
        self.first_attempts.capacity_freed.notify_waiters();
    }

    /// Adds a request to the queue. Returns `None` if the queue is full.
    fn enter(&self, is_retry: bool, length_max: usize) -> Option<QueueEntry<'_>> {
        let enter = |waiting: usize| (waiting < length_max).then_some(waiting + 1);
        self.waiting.fetch_update(Ordering::SeqCst, Ordering::SeqCst, enter).ok()?;
        let line = if is_retry { &self.retries } else { &self.first_attempts };
        let before = line.waiting.fetch_add(1, Ordering::SeqCst);
        Some(QueueEntry { queue: self, line, is_next: is_retry || before == 0 })
    }
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        self.line.waiting.fetch_sub(1, Ordering::SeqCst);
        self.queue.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Queue {
    /// Returns the result of `attempt`. If no server has capacity, waits and tries again, at most until the
    /// time `until`.
    ///
    /// First attempts are served in order, because each of them can use any free capacity. A retry may need
    /// a server that hangs while other servers have capacity. For this reason, retries wait separately and
    /// do not delay first attempts. A retry may overtake first attempts, because its request has waited
    /// longer.
    ///
    /// # Errors
    /// Returns an error if no server is available, if too many requests already wait, or if no server has
    /// capacity in time.
    ///
    /// # Cancel safety
    /// This function is cancel safe. If the future is dropped, its request leaves the queue, and the next
    /// request moves up.
    pub(crate) async fn pass<T>(
        &self,
        config: QueueConfig,
        is_retry: bool,
        clock: &Clock,
        until: Option<Duration>,
        mut attempt: impl FnMut() -> Result<T, Unavailable>,
    ) -> Result<T, Failure> {
        let attempted = if self.is_next(is_retry) { attempt() } else { Err(Unavailable::Busy) };
        match attempted {
            Ok(got) => Ok(got),
            Err(Unavailable::NoServer) => Err(Failure::NoServer),
            // This future is boxed, so that requests that do not wait need no memory for it.
            Err(Unavailable::Busy) => Box::pin(self.wait(config, is_retry, clock, until, attempt)).await,
        }
    }

    #[cold]
    async fn wait<T>(
        &self,
        config: QueueConfig,
        is_retry: bool,
        clock: &Clock,
        until: Option<Duration>,
        mut attempt: impl FnMut() -> Result<T, Unavailable>,
    ) -> Result<T, Failure> {
        let QueueConfig { length_max, timeout: queue_timeout } = config;
        let place = self.enter(is_retry, length_max).ok_or(Failure::QueueFull)?;
        let since = clock.now_exact();
        let of_queue = since + queue_timeout;
        let (end, too_late) = match until {
            Some(until) if until < of_queue => (until, Failure::TimedOut),
            _ => (of_queue, Failure::QueueTimedOut),
        };
        let line = place.line;
        let mut capacity_freed = pin!(line.capacity_freed.notified());
        capacity_freed.as_mut().enable();
        // The first request in the queue tries at once. Capacity may have become free just before this
        // request entered the queue. The queue was then empty, so the free capacity woke no request.
        let mut is_my_turn = place.is_next;
        let outcome = loop {
            if is_my_turn {
                match attempt() {
                    Ok(got) => break Ok(got),
                    Err(Unavailable::NoServer) => break Err(Failure::NoServer),
                    Err(Unavailable::Busy) => {}
                }
            }
            let left = end.saturating_sub(clock.now_exact());
            if left.is_zero() {
                break Err(too_late);
            }
            if timeout(left.min(POLL_INTERVAL_MAX), capacity_freed.as_mut()).await.is_ok() {
                capacity_freed.set(line.capacity_freed.notified());
                capacity_freed.as_mut().enable();
            }
            is_my_turn = true;
        };
        self.times.record(clock.now_exact().saturating_sub(since));
        outcome
    }
}

/// Interval at which waiting requests try again without a notification. A server that becomes healthy again
/// sends no notification.
const POLL_INTERVAL_MAX: Duration = Duration::from_millis(100);

/// Histogram of waiting times. Counts only requests that have waited.
#[derive(Debug, Default)]
pub(crate) struct WaitingTimes(Histogram<BUCKETS>);

/// Number of requests that have waited for a server, and their waiting times.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WaitingCounts {
    /// Number of requests in each bucket of waiting times. [`WaitingCounts::BOUNDS`] contains the upper bound
    /// of each bucket except the last. Each request counts in the first bucket with a bound that is not less
    /// than the waiting time of the request. If no bound is large enough, the request counts in the last
    /// bucket.
    pub buckets: [u64; BUCKETS],
    /// Sum of the waiting times.
    pub time: Duration,
}

impl WaitingCounts {
    /// Upper bounds of the buckets of waiting times. The last bucket has no upper bound.
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
    /// Adds the counts in `other` to these counts, bucket by bucket, and returns the result.
    pub(crate) fn plus(mut self, other: Self) -> Self {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(sum, count)| *sum += count);
        self.time += other.time;
        self
    }
}

impl WaitingTimes {
    /// Counts a request that has waited for the duration `time`.
    pub(crate) fn record(&self, time: Duration) {
        self.0.record(&WaitingCounts::BOUNDS, time);
    }

    /// Returns the current counts of requests and waiting times.
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
    fn waiting_time_counts_in_first_bucket_that_fits() {
        let times = WaitingTimes::default();
        [0, 1, 2, 30_000, 30_001].into_iter().map(Duration::from_millis).for_each(|time| times.record(time));
        let WaitingCounts { buckets, time } = times.counts();
        assert_eq!((buckets[0], buckets[1], buckets[12], buckets[13]), (2, 1, 1, 1));
        assert_eq!((buckets.iter().sum::<u64>(), time), (5, Duration::from_millis(60_004)));
    }
}
