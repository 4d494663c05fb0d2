//! Errors of the suite, and its output.

use std::fmt;
use std::fs;
use std::io::{ErrorKind, IsTerminal as _, Write as _, stderr, stdout};
use std::path::Path;
use std::process::exit;
use std::thread;

use thruway_bench::{Load, ProcessGroups, Progress, StopFlag};
use thruway_net::TerminationSignals;

/// Exit code if a request failed or a target is missed.
pub(crate) const EXIT_FAILED: u8 = 1;

/// Exit code after a signal: that of a shell for `SIGINT`.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// An error with the next step, if one is known.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self(format!("error: {message}\n"))
    }

    pub(crate) fn with_hint(self, hint: impl fmt::Display) -> Self {
        Self(format!("{}\nhint: {hint}\n", self.0))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Prints a report on the standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    match writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush()) {
        // The reader may have closed the pipe.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot print the report: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::new(format!("cannot write `{}`: {error}", path.display())))
}

/// The line that shows progress on the standard error, if that is a terminal.
pub(crate) struct ProgressLine {
    name: String,
}

impl ProgressLine {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    pub(crate) fn show(&self, load: &Load, progress: &Progress) {
        self.say(&progress.describe(load.limit));
    }

    /// Shows `text` behind the name.
    pub(crate) fn say(&self, text: &str) {
        if stderr().is_terminal() {
            let _ = write!(stderr(), "\r\x1b[2K{}{text}", self.name);
        }
    }

    /// Shows `text` until `work` is done.
    pub(crate) fn during<T>(&self, text: &str, work: impl FnOnce() -> T) -> T {
        self.say(text);
        let done = work();
        self.finish();
        done
    }

    /// Removes the line.
    pub(crate) fn finish(&self) {
        if !self.name.is_empty() && stderr().is_terminal() {
            let _ = write!(stderr(), "\r\x1b[2K");
        }
    }
}

/// Returns a flag that the first signal sets. The second signal ends the processes of `started`, and this
/// one.
pub(crate) fn stop_flag(started: &ProcessGroups) -> Result<StopFlag, Failure> {
    let failure = |error| Failure::new(format!("cannot handle signals: {error}"));
    let mut signals = TerminationSignals::take_over().map_err(failure)?;
    let (stop, started) = (StopFlag::default(), started.clone());
    let flag = stop.clone();
    let wait = move || {
        signals.wait();
        flag.stop();
        signals.wait();
        let _ended = started.kill();
        exit(EXIT_INTERRUPTED.into());
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(failure)?;
    Ok(stop)
}
