//! Ends a load after a duration, after a number of requests, or when the caller stops the load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Limit of a load: its duration, or the number of its requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Duration of the load.
    Duration(Duration),
    /// Number of requests of all workers together.
    Requests(u64),
}

/// Lets the caller stop a load, for example on Ctrl-C. All clones share the same flag.
#[derive(Clone, Default, Debug)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Stops the load within a tenth of a second.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Waits until the caller stops the load.
    pub(crate) async fn wait(&self) {
        while !self.is_set() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns `true` if the caller has stopped the load.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The remaining requests of one worker, and the end of its load.
#[derive(Debug)]
pub(crate) struct Budget {
    /// End of the load, if it is known. A request that is due at this time or later does not start.
    pub(crate) end: Option<Duration>,
    /// Start of the measured time.
    pub(crate) measured_from: Duration,
    requests_left: u64,
}

impl Budget {
    /// Returns the budget of one of `workers` workers: the worker with the number `worker`. The measured time
    /// of the load begins at `measured_from`.
    pub(crate) fn new(limit: Limit, measured_from: Duration, worker: usize, workers: usize) -> Self {
        let (end, requests_left) = match limit {
            Limit::Duration(duration) => (Some(measured_from + duration), u64::MAX),
            Limit::Requests(requests) => (None, share(requests, worker, workers)),
        };
        Self { end, measured_from, requests_left }
    }

    /// Removes a request that is due at `intended` from the budget. Returns `false` if no request is left,
    /// or if `intended` is not before the end of the load.
    #[inline]
    pub(crate) fn take(&mut self, intended: Duration) -> bool {
        if self.requests_left == 0 || self.end.is_some_and(|end| intended >= end) {
            return false;
        }
        self.requests_left -= u64::from(intended >= self.measured_from);
        true
    }

    /// Ends the load at `now`: no further requests start.
    pub(crate) fn end_at(&mut self, now: Duration) {
        self.end = Some(self.end.map_or(now, |end| end.min(now)));
    }
}

/// Divides `whole` among `workers` workers, and returns the share of the worker with the number `worker`.
/// If the division leaves a remainder, each of the first workers gets one more.
pub(crate) fn share(whole: u64, worker: usize, workers: usize) -> u64 {
    let (worker, workers) = (worker as u64, workers as u64);
    whole / workers + u64::from(worker < whole % workers)
}

const LOOK: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_shares_add_up_to_the_total() {
        for (whole, workers) in [(10, 3), (2, 4), (0, 1), (1_000_001, 7)] {
            assert_eq!((0..workers).map(|worker| share(whole, worker, workers)).sum::<u64>(), whole);
        }
    }

    #[test]
    fn warm_up_uses_none_of_the_request_budget() {
        let second = Duration::from_secs(1);
        let mut budget = Budget::new(Limit::Requests(2), second, 0, 1);
        assert!(budget.take(Duration::ZERO) && budget.take(Duration::ZERO));
        assert!(budget.take(second) && budget.take(second) && !budget.take(second));
    }

    #[test]
    fn no_request_starts_after_the_end() {
        let second = Duration::from_secs(1);
        let mut budget = Budget::new(Limit::Duration(second), second, 0, 1);
        assert!(budget.take(second) && !budget.take(2 * second));
        budget.end_at(Duration::from_millis(1500));
        assert!(!budget.take(Duration::from_millis(1600)));
    }
}
