//! Progress of a running load, as a value and as a line of text.

use std::time::Duration;

use crate::live::ProgressDetails;
use crate::report::{rate, time};
use crate::stop::Limit;

/// Progress of a load.
#[derive(Clone, PartialEq, Debug)]
pub struct Progress {
    /// The current phase.
    pub stage: Stage,
    /// Number of requests with the expected response in all finished intervals.
    pub answered: u64,
    /// Number of failed requests in all finished intervals.
    pub failed: u64,
    /// Responses per second in the last interval.
    pub rate: f64,
    /// 99th percentile of the response times in the last interval.
    pub p99: Duration,
    /// The results so far. Empty before the measurement, and if the load has publications.
    pub details: ProgressDetails,
}

/// Phase of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The workers open the connections that must exist at the start.
    Connecting {
        /// Number of open connections.
        opened: usize,
        /// Total number of connections.
        connections: usize,
    },
    /// The workers send requests that are not measured.
    WarmingUp,
    /// The workers have measured requests for this time.
    Measuring(Duration),
}

impl Stage {
    /// Returns the stage of a load with open connections. `measured` is the time since the measurement
    /// began, or `None` during the warm-up.
    pub(crate) const fn of(measured: Option<Duration>) -> Self {
        match measured {
            Some(measured) => Self::Measuring(measured),
            None => Self::WarmingUp,
        }
    }
}

impl Progress {
    pub(crate) fn connecting(opened: usize, connections: usize) -> Self {
        let stage = Stage::Connecting { opened, connections };
        let details = ProgressDetails::default();
        Self { stage, answered: 0, failed: 0, rate: 0.0, p99: Duration::ZERO, details }
    }

    /// Returns the progress as a line of text with a bar.
    pub fn describe(&self, limit: Limit) -> String {
        let measured = match self.stage {
            Stage::Connecting { opened, connections } => return connecting(opened, connections),
            Stage::WarmingUp => return "warming up".to_owned(),
            Stage::Measuring(measured) => measured,
        };
        let done = done(limit, measured, self);
        let left = match limit {
            Limit::Duration(duration) => {
                format!("{:>4.0} s left", duration.saturating_sub(measured).as_secs_f64().ceil())
            }
            Limit::Requests(requests) => left_of_requests(requests, measured, done),
        };
        let p99 = if self.p99.is_zero() { "-".to_owned() } else { time(self.p99.as_secs_f64() * 1e6) };
        #[expect(clippy::cast_precision_loss, reason = "below 2^52")]
        let failed = rate(self.failed as f64);
        let bar = bar(done);
        format!("{bar} {left}   {:>9} requests/s   p99 {p99:>8}   {failed} failed", rate(self.rate))
    }
}

#[expect(clippy::cast_precision_loss, reason = "below 2^52")]
fn connecting(opened: usize, connections: usize) -> String {
    let (opened, connections) = (opened as f64, connections as f64);
    format!("{} connecting: {} of {}", bar(opened / connections), rate(opened), rate(connections))
}

/// Returns the finished share of the load, from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "below 2^52")]
fn done(limit: Limit, measured: Duration, progress: &Progress) -> f64 {
    let done = match limit {
        Limit::Duration(duration) => measured.as_secs_f64() / duration.as_secs_f64(),
        Limit::Requests(requests) => (progress.answered + progress.failed) as f64 / requests as f64,
    };
    done.clamp(0.0, 1.0)
}

#[expect(clippy::cast_precision_loss, reason = "a guess")]
fn left_of_requests(requests: u64, measured: Duration, done: f64) -> String {
    if done == 0.0 {
        return format!("0 of {}", rate(requests as f64));
    }
    let left = measured.as_secs_f64() * (1.0 - done) / done;
    format!("{:>3.0} % done, {:.0} s left", 100.0 * done, left.ceil())
}

/// Draws a progress bar of constant width.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1")]
fn bar(done: f64) -> String {
    let filled = ((done * f64::from(BAR)) as usize).min(BAR.into());
    format!("[{}{}]", "#".repeat(filled), "-".repeat(usize::from(BAR) - filled))
}

const BAR: u8 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(stage: Stage) -> Progress {
        let details = ProgressDetails::default();
        Progress { stage, answered: 20, failed: 5, rate: 1234.0, p99: Duration::from_micros(250), details }
    }

    #[test]
    fn progress_bar_and_time_left_follow_from_completed_work() {
        let measuring = progress(Stage::Measuring(Duration::from_secs(10)));
        assert_eq!(
            measuring.describe(Limit::Requests(100)),
            "[#####---------------]  25 % done, 30 s left       1,234 requests/s   p99   250 µs   5 failed"
        );
        let timed = measuring.describe(Limit::Duration(Duration::from_secs(20)));
        assert!(timed.starts_with("[##########----------]   10 s left "), "{timed}");
        let over = measuring.describe(Limit::Duration(Duration::from_secs(5)));
        assert!(over.starts_with("[####################]    0 s left "), "{over}");
        let begun = Progress { answered: 0, failed: 0, ..measuring };
        assert!(begun.describe(Limit::Requests(5000)).starts_with("[--------------------] 0 of 5,000 "));
    }

    /// Regression test: no progress was shown while thousands of connections were opened.
    #[test]
    fn progress_shows_connecting_and_warm_up() {
        let limit = Limit::Requests(1);
        let connecting = progress(Stage::Connecting { opened: 500, connections: 10_000 });
        assert_eq!(connecting.describe(limit), "[#-------------------] connecting: 500 of 10,000");
        assert_eq!(progress(Stage::WarmingUp).describe(limit), "warming up");
    }
}
