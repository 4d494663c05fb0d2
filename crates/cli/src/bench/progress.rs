//! Shows the progress of a load on a terminal, and handles Ctrl-C. The first Ctrl-C ends the load, and the
//! command reports the measurements so far. The second Ctrl-C ends the command and its child processes.

use std::io::{self, IsTerminal, Write, stderr};
use std::process::exit;
use std::thread;

use rustix::termios::tcgetwinsize;
use thruway_bench::{Load, ProcessGroups, Progress, StopFlag};
use thruway_net::TerminationSignals;

use super::output::EXIT_INTERRUPTED;
use crate::config::Failure;

/// The progress line on the standard error.
pub(super) struct ProgressLine {
    is_shown: bool,
    /// Text before the progress, such as the name of the current target. May be empty.
    name: String,
}

impl ProgressLine {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self { is_shown: stderr().is_terminal(), name: name.into() }
    }

    pub(super) fn show(&self, load: &Load, progress: &Progress) {
        self.say(&progress.describe(load.limit));
    }

    /// Shows `name` and then `what`.
    pub(super) fn say(&self, what: &str) {
        if self.is_shown {
            // The line is cut to the width of the terminal, because the escape sequence erases only one line
            // of the terminal.
            let line = cut(&format!("{}{what}", self.name), columns());
            // A write error is ignored, because the load does not need the progress line.
            let _ = write!(stderr(), "\r\x1b[2K{line}");
        }
    }

    /// Erases the progress line.
    pub(super) fn finish(&self) {
        if self.is_shown {
            let _ = write!(stderr(), "\r\x1b[2K");
        }
    }
}

/// Returns the width of the terminal in columns, or `usize::MAX` if the width is unknown.
fn columns() -> usize {
    let size = tcgetwinsize(stderr()).ok().map(|size| usize::from(size.ws_col));
    size.filter(|columns| *columns > 0).unwrap_or(usize::MAX)
}

fn cut(line: &str, columns: usize) -> String {
    line.chars().take(columns.saturating_sub(1)).collect()
}

/// Returns a flag that the first SIGINT or SIGTERM sets. The second signal ends the processes in `started`
/// and then this process.
pub(super) fn stop_flag(started: &ProcessGroups) -> Result<StopFlag, Failure> {
    let stop = StopFlag::default();
    watch(stop.clone(), started.clone())
        .map_err(|error| Failure::new(format!("cannot handle signals: {error}")))?;
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
    fn progress_line_is_cut_to_terminal_width() {
        assert_eq!(cut("1234567 µs", 9), "1234567 ");
        assert_eq!(cut("12", usize::MAX), "12");
        assert_eq!(cut("12", 0), "");
    }
}
