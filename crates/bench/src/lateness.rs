//! Detects a server that falls behind in an open loop: later requests wait longer than earlier requests. Only
//! the growth of response times counts, not their length. A slow server keeps up if its response time stays
//! the same.

use std::time::Duration;

use crate::times::Times;

/// Response times of the requests in the first third and in the last third of the measured time. The
/// scheduled start of a request decides to which third the request belongs.
#[derive(Clone, Debug)]
pub(crate) struct Lateness {
    window: Duration,
    early: Times,
    late: Times,
}

impl Lateness {
    /// Creates an empty collection for requests that are scheduled within the duration `window`.
    pub(crate) fn new(window: Duration) -> Self {
        Self { window, early: Times::exact(), late: Times::exact() }
    }

    /// Records the response time of a request. `at` is the scheduled start of the request, counted from the
    /// start of the window.
    #[inline]
    pub(crate) fn record(&mut self, at: Duration, response: Duration) {
        if at < self.window / 3 {
            self.early.record(response);
        } else if at >= self.window / 3 * 2 {
            self.late.record(response);
        }
    }

    /// Adds the response times that another worker has recorded for the same window.
    pub(crate) fn add(&mut self, other: &Self) {
        self.early.add(&other.early);
        self.late.add(&other.late);
    }

    /// Returns the share of the offered load that the server completes: 1 if the server keeps up, 0.5 if
    /// the server gets twice as many requests as it can complete.
    ///
    /// If the response time grows by `g` seconds per second, the server needs `1 + g` seconds to complete
    /// the requests that arrive in one second. The function compares medians, so that outliers do not
    /// matter. The function ignores growth that is not statistically significant.
    pub(crate) fn share_done(&self) -> f64 {
        let between = self.window.as_secs_f64() * 2.0 / 3.0;
        let grown = self.late.percentile(50.0).saturating_sub(self.early.percentile(50.0)).as_secs_f64();
        if between > 0.0 && self.has_grown_significantly(grown / between) {
            1.0 / (1.0 + grown / between)
        } else {
            1.0
        }
    }

    /// Returns `true` if the median of the late requests is significantly higher than the median of the
    /// early requests, and if the number of waiting requests grew by at least [`WAITING_MIN`].
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn has_grown_significantly(&self, growth: f64) -> bool {
        let more_waiting = growth * (self.early.count() + self.late.count()) as f64;
        more_waiting >= WAITING_MIN
            && percentile_around(&self.late, -1.0) > percentile_around(&self.early, 1.0)
    }
}

/// Returns one end of the 99 % confidence interval of the median. A `side` of -1 selects the lower end, and
/// a `side` of 1 selects the upper end.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn percentile_around(times: &Times, side: f64) -> Duration {
    let distance = 50.0 * NORMAL_99 / (times.count().max(1) as f64).sqrt();
    times.percentile((50.0 + side * distance).clamp(0.0, 100.0))
}

/// In a normal distribution, 99 % of the values are at most this many standard deviations away from the
/// mean.
const NORMAL_99: f64 = 2.576;

/// Minimum growth of the number of waiting requests that shows a backlog. Smaller growth may be a random
/// fluctuation.
const WAITING_MIN: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Records a thousand requests within a second. `response` maps the time of a request within that second
    /// to its response time.
    fn share_done(response: impl Fn(f64) -> f64) -> f64 {
        let mut lateness = Lateness::new(SECOND);
        for place in 0..1000 {
            let at = f64::from(place) / 1000.0;
            lateness.record(Duration::from_secs_f64(at), Duration::from_secs_f64(response(at)));
        }
        lateness.share_done()
    }

    #[test]
    fn constant_latency_keeps_up_and_growing_latency_does_not() {
        for constant in [0.000_1, 0.1, 3.0] {
            assert!((share_done(|_| constant) - 1.0).abs() < f64::EPSILON, "{constant}");
        }
        for capacity in [0.5, 0.9, 0.98] {
            let share = share_done(|at| 0.001 + at * (1.0 / capacity - 1.0));
            assert!((share / capacity - 1.0).abs() < 0.01, "{share} instead of {capacity}");
        }
    }

    /// Regression test: a multiplication overflowed for long windows, and the program crashed.
    #[test]
    fn very_long_window_does_not_overflow() {
        let window = crate::Pace::Constant { rate: 1.0 }.window(crate::Limit::Requests(u64::MAX));
        let mut lateness = Lateness::new(window.unwrap());
        lateness.record(SECOND, SECOND);
        assert_eq!((lateness.early.count(), lateness.late.count()), (1, 0));
        assert!((lateness.share_done() - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn stragglers_and_random_variation_are_no_backlog() {
        let straggler = |at: f64| if at > 0.99 { 0.9 } else { 0.01 };
        assert!((share_done(straggler) - 1.0).abs() < f64::EPSILON);
        let mut random = fastrand::Rng::with_seed(3);
        let mut failed = 0;
        for _ in 0..200 {
            let times: Vec<f64> = (0..1000).map(|_| -0.05 * (1.0 - random.f64()).ln()).collect();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place")]
            let share = share_done(|at| times[(at * 1000.0) as usize]);
            failed += u32::from(share < 0.99);
        }
        assert!(failed <= 2, "{failed} of 200");
    }
}
