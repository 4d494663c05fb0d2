//! A check of one client, and what came of it.

use std::fmt;
use std::iter;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::child;
use crate::program::find_on_path;
use crate::stop::{Stop, now};

/// The common settings of all checks.
pub(super) struct Setting<'s> {
    /// The program `thruway`.
    pub(super) program: &'s Path,
    /// Holds the file `content`, and whatever a check leaves behind.
    pub(super) directory: &'s Path,
    pub(super) is_full: bool,
    pub(super) stop: &'s Stop,
}

impl<'s> Setting<'s> {
    /// Returns the place of checks on a server.
    pub(super) fn scene(&self, url: String, server: u32, stdio: &'s [&'s str]) -> Scene<'s> {
        let &Self { program, directory, is_full, stop } = self;
        Scene { url, server, program, stdio, directory, is_full, stop }
    }
}

/// A task of one client.
pub(super) struct Check {
    /// The program without which there is nothing to check.
    pub(super) client: String,
    pub(super) what: String,
    /// Fails unless the client saw what it should; says what that was.
    run: Box<Run>,
}

type Run = dyn Fn(&Scene<'_>) -> anyhow::Result<String>;

impl Check {
    pub(super) fn new(
        client: &str,
        what: &str,
        run: impl Fn(&Scene<'_>) -> anyhow::Result<String> + 'static,
    ) -> Self {
        Self { client: client.to_owned(), what: what.to_owned(), run: Box::new(run) }
    }
}

/// The place of a check.
pub(super) struct Scene<'s> {
    /// The server, without a slash at the end.
    pub(super) url: String,
    /// Its process.
    pub(super) server: u32,
    /// Its program.
    pub(super) program: &'s Path,
    /// The arguments with which the program is a server of MCP on stdio; `{url}` is that of the server.
    pub(super) stdio: &'s [&'s str],
    /// Holds the file `content`, and whatever a check leaves behind.
    pub(super) directory: &'s Path,
    pub(super) is_full: bool,
    pub(super) stop: &'s Stop,
}

impl Scene<'_> {
    /// Returns the output of `command`, which must succeed in time.
    pub(super) fn output(&self, what: &str, command: Command) -> anyhow::Result<String> {
        child::output_of(what, command, self.limit(), self.stop)
    }

    /// The command of a server of MCP on stdio.
    pub(super) fn stdio(&self) -> Vec<String> {
        let program = self.program.to_string_lossy().into_owned();
        let arguments = self.stdio.iter().map(|word| word.replace("{url}", &self.url));
        iter::once(program).chain(arguments).collect()
    }

    /// Returns the time limit of one check.
    pub(super) fn limit(&self) -> Duration {
        Duration::from_secs(if self.is_full { 90 } else { 20 })
    }

    /// A number that depends on how thorough the run is.
    pub(super) const fn either(&self, quick: u32, full: u32) -> u32 {
        if self.is_full { full } else { quick }
    }

    /// The content that is sent and expected.
    pub(super) fn content(&self) -> anyhow::Result<Vec<u8>> {
        std::fs::read(self.directory.join("content")).context("the content is gone")
    }
}

pub(super) enum Outcome {
    SkippedMessage(String),
    Failed(String),
    NotInstalled,
}

/// A line of the table.
pub(super) struct Row {
    client: String,
    what: String,
    time: Duration,
    pub(super) outcome: Outcome,
}

impl Row {
    pub(super) fn not_installed(client: &str, what: &str) -> Self {
        Self {
            client: client.to_owned(),
            what: what.to_owned(),
            time: Duration::ZERO,
            outcome: Outcome::NotInstalled,
        }
    }
}

/// Runs a check, if its client is installed.
pub(super) fn run_one(check: &Check, scene: &Scene<'_>) -> Row {
    if find_on_path(&check.client).is_none() {
        return Row::not_installed(&check.client, &check.what);
    }
    eprintln!("{}: {}", check.client, check.what);
    row(&check.client, &check.what, || (check.run)(scene))
}

/// Runs a check and takes its time.
pub(super) fn row(client: &str, what: &str, run: impl FnOnce() -> anyhow::Result<String>) -> Row {
    let start = now();
    let outcome = match run() {
        Ok(seen) => Outcome::SkippedMessage(seen),
        Err(error) => Outcome::Failed(format!("{error:#}")),
    };
    Row { client: client.to_owned(), what: what.to_owned(), time: start.elapsed(), outcome }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, seen) = match &self.outcome {
            Outcome::SkippedMessage(seen) => ("passed", seen.as_str()),
            Outcome::Failed(reason) => ("FAILED", reason.as_str()),
            Outcome::NotInstalled => ("not installed", ""),
        };
        let Self { client, what, .. } = self;
        let line = format!("{client:12} {what:36} {word:13} {:5.1} s  {seen}", self.time.as_secs_f64());
        f.write_str(line.trim_end())
    }
}

/// Fails unless `seen` is what was expected.
pub(super) fn expect<T: PartialEq + fmt::Debug>(what: &str, seen: &T, expected: &T) -> anyhow::Result<()> {
    ensure!(seen == expected, "{what}: {seen:?} instead of {expected:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_told_with_its_reason() {
        let row = row("curl", "GET", || expect("status", &404, &200).map(|()| "200".to_owned()));
        assert!(matches!(row.outcome, Outcome::Failed(_)));
        assert!(row.to_string().ends_with("status: 404 instead of 200"));
    }

    #[test]
    fn what_passed_is_told_with_what_was_seen() {
        let row = row("curl", "GET", || Ok("200".to_owned()));
        assert!(matches!(row.outcome, Outcome::SkippedMessage(_)));
        assert!(row.to_string().contains("passed"));
    }
}
