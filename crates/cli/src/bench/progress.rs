//! The line that is shown while a load goes on, with a bar; on a terminal only.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use rustix::termios::tcgetwinsize;
use thruway_bench::{Limit, Load, Progress, Stage, rate, time};

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
        self.say(&line(load.limit, progress));
    }

    /// Shows something that is not ours to look into.
    pub(super) fn say(&self, what: &str) {
        if self.is_shown {
            // What is longer than a line could not be taken away again.
            let line = cut(&format!("{}{what}", self.name), columns());
            // Where nobody reads it, nobody misses it.
            let _ = write!(stderr(), "\r\x1b[2K{line}");
        }
    }

    /// Takes the line away.
    pub(super) fn finish(&self) {
        if self.is_shown {
            let _ = write!(stderr(), "\r\x1b[2K");
        }
    }
}

/// How wide the terminal is, if it says so.
fn columns() -> usize {
    let size = tcgetwinsize(stderr()).ok().map(|size| usize::from(size.ws_col));
    size.filter(|columns| *columns > 0).unwrap_or(usize::MAX)
}

fn cut(line: &str, columns: usize) -> String {
    line.chars().take(columns.saturating_sub(1)).collect()
}

fn line(limit: Limit, progress: &Progress) -> String {
    let measured = match progress.stage {
        Stage::Connecting { opened, connections } => return connecting(opened, connections),
        Stage::WarmingUp => return "warming up".to_owned(),
        Stage::Measuring(measured) => measured,
    };
    let done = done(limit, measured, progress);
    let left = match limit {
        Limit::Duration(duration) => {
            format!("{:>4.0} s left", duration.saturating_sub(measured).as_secs_f64().ceil())
        }
        Limit::Requests(requests) => left_of_requests(requests, measured, done),
    };
    let p99 = if progress.p99.is_zero() { "-".to_owned() } else { time(progress.p99.as_secs_f64() * 1e6) };
    #[expect(clippy::cast_precision_loss, reason = "below 2^52")]
    let failed = rate(progress.failed as f64);
    let bar = bar(done);
    format!("{bar} {left}   {:>9} requests/s   p99 {p99:>8}   {failed} failed", rate(progress.rate))
}

#[expect(clippy::cast_precision_loss, reason = "below 2^52")]
fn connecting(opened: usize, connections: usize) -> String {
    let (opened, connections) = (opened as f64, connections as f64);
    format!("{} connecting: {} of {}", bar(opened / connections), rate(opened), rate(connections))
}

/// The share of the load that is done.
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

/// As long as it is, however much is done.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from nothing to all of it")]
fn bar(done: f64) -> String {
    let filled = ((done * f64::from(BAR)) as usize).min(BAR.into());
    format!("[{}{}]", "#".repeat(filled), "-".repeat(usize::from(BAR) - filled))
}

const BAR: u8 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(stage: Stage) -> Progress {
        Progress { stage, answered: 20, failed: 5, rate: 1234.0, p99: Duration::from_micros(250) }
    }

    #[test]
    fn the_bar_and_the_time_left_are_guessed_from_what_is_done() {
        let measuring = progress(Stage::Measuring(Duration::from_secs(10)));
        assert_eq!(
            line(Limit::Requests(100), &measuring),
            "[#####---------------]  25 % done, 30 s left       1,234 requests/s   p99   250 µs   5 failed"
        );
        let timed = line(Limit::Duration(Duration::from_secs(20)), &measuring);
        assert!(timed.starts_with("[##########----------]   10 s left "), "{timed}");
        let over = line(Limit::Duration(Duration::from_secs(5)), &measuring);
        assert!(over.starts_with("[####################]    0 s left "), "{over}");
        let begun = Progress { answered: 0, failed: 0, ..measuring };
        assert!(line(Limit::Requests(5000), &begun).starts_with("[--------------------] 0 of 5,000 "));
    }

    /// Nothing was shown while thousands of connections were opened.
    #[test]
    fn what_comes_before_the_measuring_is_shown_too() {
        let limit = Limit::Requests(1);
        let connecting = progress(Stage::Connecting { opened: 500, connections: 10_000 });
        assert_eq!(line(limit, &connecting), "[#-------------------] connecting: 500 of 10,000");
        assert_eq!(line(limit, &progress(Stage::WarmingUp)), "warming up");
    }

    #[test]
    fn a_line_fits_into_the_terminal() {
        assert_eq!(cut("1234567 µs", 9), "1234567 ");
        assert_eq!(cut("12", usize::MAX), "12");
        assert_eq!(cut("12", 0), "");
    }
}
