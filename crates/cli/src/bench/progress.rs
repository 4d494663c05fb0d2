//! The line that is shown while a load goes on; on a terminal only.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use thruway_bench::{Limit, Load, Progress, rate, time};

/// The line, on the standard error.
pub(super) struct ProgressLine {
    is_shown: bool,
    /// What is loaded just now, if there are several.
    name: String,
}

impl ProgressLine {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self { is_shown: stderr().is_terminal(), name: name.into() }
    }

    pub(super) fn show(&self, load: &Load, progress: &Progress) {
        if self.is_shown {
            // Where nobody reads it, nobody misses it.
            let _ = write!(stderr(), "\r\x1b[2K{}{}", self.name, line(load, progress));
        }
    }

    /// Shows something that is not ours to look into.
    pub(super) fn say(&self, what: &str) {
        if self.is_shown {
            let _ = write!(stderr(), "\r\x1b[2K{}{what}", self.name);
        }
    }

    /// Takes the line away.
    pub(super) fn finish(&self) {
        if self.is_shown {
            let _ = write!(stderr(), "\r\x1b[2K");
        }
    }
}

fn line(load: &Load, progress: &Progress) -> String {
    let Some(measured) = progress.measured else { return "warming up".to_owned() };
    let p99 = if progress.p99.is_zero() { "-".to_owned() } else { time(progress.p99.as_secs_f64() * 1e6) };
    let left = match load.limit {
        Limit::Duration(duration) => {
            format!("{:>4.0} s left", duration.saturating_sub(measured).as_secs_f64().ceil())
        }
        Limit::Requests(requests) => left_of_requests(requests, measured, progress),
    };
    #[expect(clippy::cast_precision_loss, reason = "below 2^52")]
    let failed = rate(progress.failed as f64);
    format!("{left}   {:>9} requests/s   p99 {:>8}   {failed} failed", rate(progress.rate), p99)
}

#[expect(clippy::cast_precision_loss, reason = "a guess")]
fn left_of_requests(requests: u64, measured: Duration, progress: &Progress) -> String {
    let done = (progress.answered + progress.failed).min(requests);
    if done == 0 {
        return format!("0 of {}", rate(requests as f64));
    }
    let left = measured.as_secs_f64() * (requests - done) as f64 / done as f64;
    format!("{:>3.0} % done, {:.0} s left", 100.0 * done as f64 / requests as f64, left.ceil())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_guessed_from_what_is_done() {
        let progress = Progress { measured: None, answered: 20, failed: 5, rate: 0.0, p99: Duration::ZERO };
        let left = left_of_requests(100, Duration::from_secs(10), &progress);
        assert_eq!(left, " 25 % done, 30 s left");
    }
}
