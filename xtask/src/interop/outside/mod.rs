//! `cargo xtask interop --outside`: runs test suites of other gateways against Thruway.
//!
//! The tests of HAProxy and nginx write a config for their gateway and start it. A Python program replaces
//! the gateway: the program translates the config and starts `thruway serve`. The payloads of the HTTP Garden
//! go through the gateway to each upstream server of `--gateway`. The suites are not part of this repository:
//! the caller names a checkout of each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::check::Checker;
use super::gateway::{self, Pieces};
use crate::child;
use crate::expected::Expected;
use crate::program::repository;

/// Checkouts of the suites.
#[derive(clap::Args)]
pub(super) struct Checkouts {
    /// A checkout of haproxy/haproxy, for `--outside`
    #[arg(long, value_name = "DIR", requires = "outside")]
    haproxy: Option<PathBuf>,
    /// A checkout of nginx/nginx-tests, for `--outside`
    #[arg(long, value_name = "DIR", requires = "outside")]
    nginx_tests: Option<PathBuf>,
    /// A checkout of narfindustries/http-garden, for `--outside`
    #[arg(long, value_name = "DIR", requires = "outside")]
    http_garden: Option<PathBuf>,
}

/// Runs each suite that has a checkout and an installed test runner.
pub(super) fn run(checker: &Checker<'_>, checkouts: &Checkouts) -> anyhow::Result<()> {
    for (suite, runner, what, checkout) in [
        ("haproxy", "varnishtest", "HAProxy's http-messaging", &checkouts.haproxy),
        ("nginx", "perl", "nginx's proxy tests", &checkouts.nginx_tests),
    ] {
        match checkout {
            Some(checkout) => checker.check(runner, what, || {
                let printed = printed("suites.py", &[suite, &path_of(checkout)?], checker)?;
                let lines = printed.lines().filter(|line| line.starts_with('{'));
                let results: Vec<_> = lines.map(serde_json::from_str).collect::<Result<_, _>>()?;
                verdict(&expected(suite)?, &results)
            })?,
            None => checker.not_installed(suite, &format!("{what} (a checkout)")),
        }
    }
    let Some(checkout) = &checkouts.http_garden else {
        checker.not_installed("python3", "HTTP Garden (a checkout)");
        return Ok(());
    };
    let payloads = payloads(checkout, checker)?;
    // Few requests can pass, because most payloads are malformed.
    gateway::run_cases(checker, "HTTP Garden", &payloads, payloads.len() / 10)
}

/// Returns the output of a script in this folder.
fn printed(script: &str, arguments: &[&str], checker: &Checker<'_>) -> anyhow::Result<String> {
    let mut command = Command::new("python3");
    command.arg(repository().join("xtask/src/interop/outside").join(script)).args(arguments);
    command.env("PROGRAM", checker.program).env("PYTHONDONTWRITEBYTECODE", "1");
    child::output_of(script, command, LIMIT, checker.stop)
}

fn path_of(checkout: &Path) -> anyhow::Result<String> {
    let path = fs::canonicalize(checkout).context("there is no such checkout")?;
    path.into_os_string().into_string().ok().context("the path of the checkout is not UTF-8")
}

/// The result of one test from `suites.py`.
#[derive(Deserialize)]
struct TestResult {
    name: String,
    passed: bool,
    cause: String,
}

fn expected(suite: &str) -> anyhow::Result<Expected> {
    Expected::read_of(include_str!("expected_failures.toml"), suite, "")
}

/// Returns a text with the numbers of passed tests and of expected failures.
///
/// # Errors
/// A failure is not listed, an entry matches no failure, or no test passed.
fn verdict(expected: &Expected, results: &[TestResult]) -> anyhow::Result<String> {
    let failed = results.iter().filter(|result| !result.passed);
    let failed: Vec<_> = failed.map(|result| (result.name.clone(), result.cause.clone())).collect();
    expected.check(&failed)?;
    let passed = results.len() - failed.len();
    ensure!(passed > 0, "no test passed");
    Ok(format!("{passed} tests passed, {} failed as expected", failed.len()))
}

/// Returns payloads of the HTTP Garden. `garden.py` prints each payload as a list of texts, in which each
/// character is a byte.
fn payloads(checkout: &Path, checker: &Checker<'_>) -> anyhow::Result<Vec<Pieces>> {
    let count = checker.either(5_000, 10_000);
    let printed = printed("garden.py", &[&path_of(checkout)?, &count.to_string()], checker)?;
    let bytes = |piece: String| piece.chars().map(u8::try_from).collect::<Result<Vec<_>, _>>();
    let mut payloads = Vec::new();
    for line in printed.lines() {
        let pieces: Vec<String> = serde_json::from_str(line)?;
        payloads.push(pieces.into_iter().map(bytes).collect::<Result<_, _>>()?);
    }
    ensure!(payloads.len() == usize::try_from(count)?, "garden.py printed {} payloads", payloads.len());
    Ok(payloads)
}

/// The tests of nginx take most of the time, because they wait for timeouts.
const LIMIT: Duration = Duration::from_mins(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlisted_failure_and_unmatched_entry_are_errors() {
        let result =
            |(name, passed): (&str, bool)| TestResult { name: name.to_owned(), passed, cause: String::new() };
        let results = [("a.t: one", true), ("a.t: two", false), ("b.t", false)].map(result);
        let list =
            |names| Expected::read(&format!("[[expected]]\nreason = 'why'\nnames = {names}\n")).unwrap();
        assert!(verdict(&list("['a.t: two', 'b*']"), &results).is_ok());
        assert!(verdict(&list("['a.t: two']"), &results).is_err());
        assert!(verdict(&list("['a.t: two', 'b*', 'a.t: one']"), &results).is_err());
        assert!(verdict(&list("['b*']"), &results[2..]).is_err());
        for suite in ["haproxy", "nginx"] {
            assert!(expected(suite).unwrap().names().count() > 0);
        }
    }
}
