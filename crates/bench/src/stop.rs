//! End of a load: after a duration, after a number of requests, or by a stop from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The duration or the number of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// A duration.
    Duration(Duration),
    /// Number of requests of all workers together.
    Requests(u64),
}

/// Stops a load from outside, for example on Ctrl-C. Clones share the flag.
#[derive(Clone, Default, Debug)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Stops the load within a tenth of a second.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns when the load is stopped from outside.
    pub(crate) async fn wait(&self) {
        while !self.is_set() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns `true` after a stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The remaining part of the load of one worker.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Time after which no request is due.
    pub(crate) end: Option<Duration>,
    /// Start of the measured time.
    pub(crate) measured_from: Duration,
    requests_left: u64,
}

impl Budget {
    /// Returns the share of worker `worker` of `workers` in a load that is measured from `measured_from` on.
    pub(crate) fn new(limit: Limit, measured_from: Duration, worker: usize, workers: usize) -> Self {
        let (end, requests_left) = match limit {
            Limit::Duration(duration) => (Some(measured_from + duration), u64::MAX),
            Limit::Requests(requests) => (None, share(requests, worker, workers)),
        };
        Self { end, measured_from, requests_left }
    }

    /// Takes a request that is due at `intended`. Returns `false` if none is left.
    #[inline]
    pub(crate) fn take(&mut self, intended: Duration) -> bool {
        if self.requests_left == 0 || self.end.is_some_and(|end| intended >= end) {
            return false;
        }
        self.requests_left -= u64::from(intended >= self.measured_from);
        true
    }

    /// Prevents the start of requests from `now` on.
    pub(crate) fn end_at(&mut self, now: Duration) {
        self.end = Some(self.end.map_or(now, |end| end.min(now)));
    }
}

/// Returns the share of worker `worker` of `workers` in `whole`: the first workers get one more if it does
/// not divide evenly.
pub(crate) fn share(whole: u64, worker: usize, workers: usize) -> u64 {
    let (worker, workers) = (worker as u64, workers as u64);
    whole / workers + u64::from(worker < whole % workers)
}

const LOOK: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (whole, workers) in [(10, 3), (2, 4), (0, 1), (1_000_001, 7)] {
            assert_eq!((0..workers).map(|worker| share(whole, worker, workers)).sum::<u64>(), whole);
        }
    }

    #[test]
    fn warming_up_costs_no_requests() {
        let second = Duration::from_secs(1);
        let mut budget = Budget::new(Limit::Requests(2), second, 0, 1);
        assert!(budget.take(Duration::ZERO) && budget.take(Duration::ZERO));
        assert!(budget.take(second) && budget.take(second) && !budget.take(second));
    }

    #[test]
    fn nothing_starts_at_the_end() {
        let second = Duration::from_secs(1);
        let mut budget = Budget::new(Limit::Duration(second), second, 0, 1);
        assert!(budget.take(second) && !budget.take(2 * second));
        budget.end_at(Duration::from_millis(1500));
        assert!(!budget.take(Duration::from_millis(1600)));
    }
}
