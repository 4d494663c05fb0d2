//! Rate limits that delay requests above the limit.
//!
//! Each key has a line of waiting requests. The requests of a line are admitted in the order of their arrival, at the
//! times at which their bucket gets a token. If a client disconnects, the requests behind its request move up.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use thruway_net::{TokenBuckets, TokenRate, Worker};
use thruway_server::{Request, StatusCode};
use tokio::time::{Sleep, sleep};

use super::{DelayConfig, RateLimitConfig, keys_max};
use crate::policy::key::Keys;
use crate::policy::refusal::Refusal;

/// A rate limit that delays requests.
#[derive(Debug)]
pub(in crate::policy) struct DelayingRateLimit {
    keys: Keys,
    queue: Arc<DelayQueue>,
    status: StatusCode,
    burst: u32,
}

/// The buckets of all keys, and the requests that wait for a token.
pub(in crate::policy) struct DelayQueue {
    rate: TokenRate,
    buckets: TokenBuckets,
    config: DelayConfig,
    /// Number of requests in all lines. It changes only while `lines` is locked.
    waiting: AtomicUsize,
    lines: Mutex<Lines>,
}

/// The lines of all keys with waiting requests.
#[derive(Default)]
struct Lines {
    by_key: HashMap<u64, Line>,
    /// Number of the next request that waits.
    next: u64,
}

/// The waiting requests of a key, by their numbers.
struct Line {
    /// Time at which the first request is admitted, in nanoseconds. The times of the following requests depend on this
    /// time, and not on the time at which the first request really continues. Otherwise, the rate would be lower than
    /// the limit, because timers are late.
    due: u64,
    /// Each request with its waker. A request without a waker has not been polled yet.
    requests: BTreeMap<u64, Option<Waker>>,
}

/// The decision about a new request.
enum Entry {
    Admitted,
    /// The request waits. Contains its number.
    Waits(u64),
    /// The request would have to wait for this time.
    Refused(Duration),
}

/// The place of a waiting request. The future is ready when the request is admitted. If it is dropped, the request
/// leaves the line.
pub(in crate::policy) struct Delay {
    queue: Arc<DelayQueue>,
    key: u64,
    number: u64,
    worker: Rc<Worker>,
    /// The timer of the first request of a line, and its time.
    timer: Option<(u64, Pin<Box<Sleep>>)>,
    is_admitted: bool,
}

impl DelayingRateLimit {
    pub(in crate::policy) fn new(config: &RateLimitConfig, delay: DelayConfig) -> Self {
        let queue = DelayQueue {
            rate: TokenRate::new(config.requests, config.per, config.burst),
            buckets: TokenBuckets::new(keys_max(config)),
            config: delay,
            waiting: AtomicUsize::new(0),
            lines: Mutex::default(),
        };
        Self {
            keys: Keys::new(config.by.clone()),
            queue: Arc::new(queue),
            status: config.status,
            burst: config.burst,
        }
    }

    /// Admits the request, or returns the delay until it is admitted.
    ///
    /// # Errors
    /// Returns a refusal if the request would wait too long, or if too many requests wait.
    pub(in crate::policy) fn admit(
        &self,
        request: &Request<'_>,
        route: &str,
    ) -> Result<Option<Box<Delay>>, Refusal> {
        let worker = request.worker();
        let key = self.keys.key(request, route);
        match self.queue.enter(key, now_of(worker)) {
            Entry::Admitted => Ok(None),
            Entry::Waits(number) => {
                let (queue, worker) = (self.queue.clone(), worker.clone());
                let delay = Delay { queue, key, number, worker, timer: None, is_admitted: false };
                Ok(Some(Box::new(delay)))
            }
            Entry::Refused(wait) => Err(Refusal::Rate { status: self.status, burst: self.burst, wait }),
        }
    }
}

impl DelayQueue {
    /// Decides about a new request with this key.
    fn enter(&self, key: u64, now: u64) -> Entry {
        // Usually, no request waits, so the lock is not necessary.
        if self.waiting.load(Ordering::SeqCst) == 0 && self.buckets.take(key, self.rate, now).is_ok() {
            return Entry::Admitted;
        }
        let mut lines = self.lock();
        let due = match lines.by_key.get(&key) {
            Some(line) => {
                let ahead = u64::try_from(line.requests.len()).unwrap_or(u64::MAX);
                line.due.saturating_add(self.interval().saturating_mul(ahead))
            }
            None => match self.buckets.take(key, self.rate, now) {
                Ok(()) => return Entry::Admitted,
                Err(wait) => now.saturating_add(nanoseconds(wait)),
            },
        };
        let wait = Duration::from_nanos(due.saturating_sub(now));
        let is_full = self.waiting.load(Ordering::SeqCst) >= self.config.requests_max;
        if wait > self.config.time_max || is_full {
            return Entry::Refused(wait);
        }
        let number = lines.next;
        lines.next += 1;
        let new = || Line { due, requests: BTreeMap::new() };
        lines.by_key.entry(key).or_insert_with(new).requests.insert(number, None);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Entry::Waits(number)
    }

    /// Admits the request `number` if it is the first request of its line, and if its time has come. Otherwise, stores
    /// the waker, and returns the time at which the request is due if it is the first request.
    fn poll(&self, key: u64, number: u64, now: u64, waker: &Waker) -> Poll<Option<u64>> {
        let mut lines = self.lock();
        let Some(line) = lines.by_key.get_mut(&key) else { return Poll::Ready(None) };
        if line.requests.first_key_value().is_some_and(|(first, _)| *first == number) {
            if now >= line.due {
                match self.buckets.take(key, self.rate, line.due) {
                    Ok(()) => {
                        line.due = line.due.saturating_add(self.interval());
                        self.remove(&mut lines, key, number);
                        return Poll::Ready(None);
                    }
                    // Another request has taken the token just before this line began.
                    Err(wait) => line.due = line.due.saturating_add(nanoseconds(wait)),
                }
            }
            line.requests.insert(number, Some(waker.clone()));
            return Poll::Ready(Some(line.due));
        }
        line.requests.insert(number, Some(waker.clone()));
        Poll::Pending
    }

    /// Removes a request from its line. If it was the first request, wakes the next request.
    fn remove(&self, lines: &mut Lines, key: u64, number: u64) {
        let Some(line) = lines.by_key.get_mut(&key) else { return };
        let is_first = line.requests.first_key_value().is_some_and(|(first, _)| *first == number);
        if line.requests.remove(&number).is_some() {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        match line.requests.first_key_value() {
            None => drop(lines.by_key.remove(&key)),
            Some((_, Some(waker))) if is_first => waker.wake_by_ref(),
            Some(_) => {}
        }
    }

    fn interval(&self) -> u64 {
        nanoseconds(self.rate.interval())
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Future for Delay {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        loop {
            let now = now_of(&this.worker);
            let Some(due) = ready!(this.queue.poll(this.key, this.number, now, cx.waker())) else {
                this.is_admitted = true;
                return Poll::Ready(());
            };
            let is_set = this.timer.as_ref().is_some_and(|(at, _)| *at == due);
            if !is_set {
                let left = Duration::from_nanos(due.saturating_sub(now));
                this.timer = Some((due, Box::pin(sleep(left))));
            }
            let Some((_, timer)) = &mut this.timer else { return Poll::Pending };
            ready!(timer.as_mut().poll(cx));
            this.timer = None;
        }
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        if !self.is_admitted {
            self.queue.remove(&mut self.queue.lock(), self.key, self.number);
        }
    }
}

impl fmt::Debug for DelayQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueue")
            .field("config", &self.config)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

fn now_of(worker: &Worker) -> u64 {
    nanoseconds(worker.clock().now_exact())
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
