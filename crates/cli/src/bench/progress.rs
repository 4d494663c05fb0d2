//! While a load runs: the progress line, on a terminal only, and Ctrl-C. The first Ctrl-C ends the load with
//! what was measured, the second ends the process and what it has started.

use std::io::{self, IsTerminal, Write, stderr};
use std::process::exit;
use std::thread;

use rustix::termios::tcgetwinsize;
use thruway_bench::{Load, ProcessGroups, Progress, StopFlag};
use thruway_net::TerminationSignals;

use super::output::EXIT_INTERRUPTED;
use crate::config::Failure;

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
        self.say(&progress.describe(load.limit));
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

/// A flag that is set when the process is asked to end. `started` are ended when it is asked again.
pub(super) fn stop_flag(started: &ProcessGroups) -> Result<StopFlag, Failure> {
    let stop = StopFlag::default();
    watch(stop.clone(), started.clone())
        .map_err(|error| Failure::new(format!("signals cannot be handled: {error}")))?;
    Ok(stop)
}

fn watch(stop: StopFlag, started: ProcessGroups) -> io::Result<()> {
    let mut signals = TerminationSignals::take_over()?;
    let wait = move || {
        signals.wait();
        stop.stop();
        signals.wait();
        let _ended = started.kill();
        exit(EXIT_INTERRUPTED.into());
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_into_the_terminal() {
        assert_eq!(cut("1234567 µs", 9), "1234567 ");
        assert_eq!(cut("12", usize::MAX), "12");
        assert_eq!(cut("12", 0), "");
    }
}
