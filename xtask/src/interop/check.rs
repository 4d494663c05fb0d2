//! Runs checks. Each check prints a line with its outcome.

use std::cell::Cell;
use std::iter;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;

use crate::child;
use crate::program::find_on_path;
use crate::server::Server;
use crate::stop::{Stop, now};

/// The server to check, and the settings of the checks.
pub(super) struct Checker<'s> {
    /// The program `thruway`.
    pub(super) program: &'s Path,
    /// Working directory of the checks, with the file `content`.
    pub(super) directory: &'s Path,
    pub(super) is_full: bool,
    pub(super) stop: &'s Stop,
    pub(super) counts: &'s Counts,
    /// The URL of the server, without a slash at the end.
    pub(super) url: String,
    /// The process ID of the server.
    pub(super) server: u32,
    /// The arguments for `thruway` as an MCP server on stdio. `{url}` is the URL of the server.
    pub(super) stdio: &'s [&'s str],
}

/// The numbers of checks with each outcome.
#[derive(Default)]
pub(super) struct Counts {
    passed: Cell<u32>,
    failed: Cell<u32>,
    not_installed: Cell<u32>,
}

impl Counts {
    /// Prints the counts.
    ///
    /// # Errors
    /// A check failed.
    pub(super) fn report(&self) -> anyhow::Result<()> {
        let failed = self.failed.get();
        let (passed, not_installed) = (self.passed.get(), self.not_installed.get());
        println!("\n{passed} passed, {failed} failed, {not_installed} not installed");
        ensure!(failed == 0, "{failed} checks failed");
        Ok(())
    }
}

impl<'s> Checker<'s> {
    /// Returns a checker for another server with the same settings.
    pub(super) fn at(&self, server: &Server, stdio: &'s [&'s str]) -> Self {
        Self { url: server.url(), server: server.id(), stdio, ..*self }
    }

    /// Runs a check if the program `client` is installed.
    ///
    /// # Errors
    /// The time limit has passed or a signal arrived. A failed check is not an error.
    pub(super) fn check(
        &self,
        client: &str,
        what: &str,
        run: impl FnOnce() -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        if find_on_path(client).is_none() {
            self.not_installed(client, what);
            return Ok(());
        }
        self.row(client, what, run)
    }

    /// Runs a check that needs no installed program.
    ///
    /// # Errors
    /// Same as [`Self::check`].
    pub(super) fn row(
        &self,
        client: &str,
        what: &str,
        run: impl FnOnce() -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        let start = now();
        let (word, count, seen) = match run() {
            Ok(seen) => ("passed", &self.counts.passed, seen),
            Err(error) => ("FAILED", &self.counts.failed, format!("{error:#}")),
        };
        count.set(count.get() + 1);
        println!("{client:12} {what:36} {word:13} {:5.1} s  {seen}", start.elapsed().as_secs_f64());
        self.stop.check()
    }

    /// Prints that a check was skipped, because a program is not installed.
    pub(super) fn not_installed(&self, client: &str, what: &str) {
        self.counts.not_installed.set(self.counts.not_installed.get() + 1);
        println!("{client:12} {what:36} not installed   0.0 s");
    }

    /// Runs a command, which must succeed in time, and returns its output.
    pub(super) fn output(&self, what: &str, command: Command) -> anyhow::Result<String> {
        child::output_of(what, command, self.limit(), self.stop)
    }

    /// Returns the command of our MCP server on stdio.
    pub(super) fn stdio(&self) -> Vec<String> {
        let program = self.program.to_string_lossy().into_owned();
        let arguments = self.stdio.iter().map(|word| word.replace("{url}", &self.url));
        iter::once(program).chain(arguments).collect()
    }

    /// Returns the time limit of one check.
    pub(super) fn limit(&self) -> Duration {
        Duration::from_secs(self.either(20, 90).into())
    }

    /// Returns the number for a quick run or for a full run.
    pub(super) const fn either(&self, quick: u32, full: u32) -> u32 {
        if self.is_full { full } else { quick }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_check_fails_the_run_after_all_checks() {
        let (stop, counts) = (Stop::new(Duration::from_mins(1)).unwrap(), Counts::default());
        let (program, directory) = (Path::new(""), Path::new(""));
        let (is_full, url, server) = (false, String::new(), 0);
        let checker =
            Checker { program, directory, is_full, stop: &stop, counts: &counts, url, server, stdio: &[] };
        checker.check("no-such-program", "GET", || Ok(String::new())).unwrap();
        checker.check("sh", "GET", || Ok("200".to_owned())).unwrap();
        assert!(counts.report().is_ok());
        checker.row("curl", "GET", || anyhow::bail!("status: 404")).unwrap();
        assert!(counts.report().is_err());
        assert_eq!([counts.passed, counts.failed, counts.not_installed].map(|count| count.get()), [1, 1, 1]);
    }
}
