//! Requests for which no server has room wait, first come, first served.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use thruway_net::Clock;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::Failure;
use crate::meter::Histogram;

/// How many requests wait for a server that has room, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueConfig {
    /// Those beyond are answered 503. Default 1000; with 0, none waits.
    pub length_max: usize,
    /// Then they are answered 503. Default 5 s.
    pub timeout: Duration,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self { length_max: 1_000, timeout: Duration::from_secs(5) }
    }
}

/// Why a request gets nothing at present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unavailable {
    /// There is no room for it.
    Busy,
    /// There is nothing to wait for.
    Nobody,
}

/// Those who wait, in all workers.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: AtomicUsize,
    /// For the room that there is next, wherever it is.
    first_tries: Line,
    /// For room elsewhere than where they have failed: what they wait for may be none of what others do.
    retries: Line,
    times: WaitingTimes,
}

/// Some of those who wait.
#[derive(Debug, Default)]
struct Line {
    waiting: AtomicUsize,
    room: Notify,
}

/// One who waits, until this is dropped.
#[derive(Debug)]
struct Place<'q> {
    queue: &'q Queue,
    line: &'q Line,
    /// Nobody is ahead of it.
    is_next: bool,
}

impl Queue {
    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        // In one order with what servers count: who frees a place sees who waits, or who waits sees the
        // place.
        self.waiting.load(Ordering::SeqCst)
    }

    /// How many have waited so far, and for how long.
    pub(crate) fn counts(&self) -> WaitingCounts {
        self.times.counts()
    }

    /// A server has room for one more request.
    #[inline]
    pub(crate) fn notify_capacity(&self) {
        if self.len() > 0 {
            self.announce_capacity();
        }
    }

    #[cold]
    fn announce_capacity(&self) {
        // All of these: not each can use it, and they are few, as retries have a budget.
        self.retries.room.notify_waiters();
        if self.first_tries.waiting.load(Ordering::SeqCst) > 0 {
            self.first_tries.room.notify_one();
        }
    }

    /// There may be room for all who wait: the servers are others.
    pub(crate) fn notify_all(&self) {
        self.retries.room.notify_waiters();
        self.first_tries.room.notify_waiters();
    }

    /// A place in the queue; `None` if it is full.
    fn enter(&self, is_retry: bool, length_max: usize) -> Option<Place<'_>> {
        let enter = |waiting: usize| (waiting < length_max).then_some(waiting + 1);
        self.waiting.fetch_update(Ordering::SeqCst, Ordering::SeqCst, enter).ok()?;
        let line = if is_retry { &self.retries } else { &self.first_tries };
        let before = line.waiting.fetch_add(1, Ordering::SeqCst);
        Some(Place { queue: self, line, is_next: is_retry || before == 0 })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.line.waiting.fetch_sub(1, Ordering::SeqCst);
        self.queue.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Queue {
    /// What `attempt` comes to. If there is no room for it, waits until it is tried again with more luck, but
    /// no longer than `until`.
    ///
    /// Who tries for the first time passes nobody that does so too, as each of them can use whatever room
    /// there is. A retry may want a server that hangs, while others have room: it holds nobody up, and has
    /// been waiting longer than those who wait for their first try.
    ///
    /// # Errors
    /// There is nobody to wait for, or too many wait already, or there is no room in time.
    ///
    /// # Cancel safety
    /// If the future is dropped, its place in the queue is another's.
    pub(crate) async fn pass<T>(
        &self,
        config: QueueConfig,
        is_retry: bool,
        clock: &Clock,
        until: Option<Duration>,
        mut attempt: impl FnMut() -> Result<T, Unavailable>,
    ) -> Result<T, Failure> {
        let is_next = is_retry || self.first_tries.waiting.load(Ordering::SeqCst) == 0;
        let attempted = if is_next { attempt() } else { Err(Unavailable::Busy) };
        match attempted {
            Ok(got) => Ok(got),
            Err(Unavailable::Nobody) => Err(Failure::NoServer),
            // Boxed, so that those who need not wait have no room for it.
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
        let QueueConfig { length_max, timeout: patience } = config;
        let place = self.enter(is_retry, length_max).ok_or(Failure::QueueFull)?;
        let since = clock.now_exact();
        let of_queue = since + patience;
        let (end, too_late) = match until {
            Some(until) if until < of_queue => (until, Failure::TimedOut),
            _ => (of_queue, Failure::QueueTimedOut),
        };
        let line = place.line;
        let mut room = pin!(line.room.notified());
        room.as_mut().enable();
        // Room that was made before this place was taken was announced to nobody.
        let mut is_my_turn = place.is_next;
        let outcome = loop {
            if is_my_turn {
                match attempt() {
                    Ok(got) => break Ok(got),
                    Err(Unavailable::Nobody) => break Err(Failure::NoServer),
                    Err(Unavailable::Busy) => {}
                }
            }
            let left = end.saturating_sub(clock.now_exact());
            if left.is_zero() {
                break Err(too_late);
            }
            if timeout(left.min(LOOK_AGAIN), room.as_mut()).await.is_ok() {
                room.set(line.room.notified());
                room.as_mut().enable();
            }
            is_my_turn = true;
        };
        self.times.record(clock.now_exact().saturating_sub(since));
        outcome
    }
}

/// A server that comes back makes room without announcing it.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Counts those that have waited, and for how long: only who waits writes it.
#[derive(Debug, Default)]
pub(crate) struct WaitingTimes(Histogram<BUCKETS>);

/// How many requests have waited for a server with room, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WaitingCounts {
    /// Those that have waited no longer than each of [`WaitingCounts::BOUNDS`], and longer than the one
    /// before; then all others.
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
