//! `cargo xtask interop --outside`: test suites of other gateways, run against Thruway.
//!
//! HAProxy's scenarios and nginx's tests write a config of their own gateway and start it. A program in
//! Python stands in for that gateway: it translates the config and starts `thruway serve`. The payloads of
//! the HTTP Garden go through the gateway to each upstream of `--gateway`. Each suite is a checkout that the
//! caller names; none is part of this repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::check::{self, Row, Setting};
use super::gateway::{self, Cases};
use crate::child;
use crate::expected::Expected;
use crate::program::find_on_path;

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

/// A suite with tests that start the gateway.
struct Suite {
    /// Name in `suites.py` and in `expected_failures.toml`.
    name: &'static str,
    /// The program that runs the tests.
    runner: &'static str,
    what: &'static str,
    checkout: fn(&Checkouts) -> Option<&PathBuf>,
    option: &'static str,
}

const SUITES: &[Suite] = &[
    Suite {
        name: "haproxy",
        runner: "varnishtest",
        what: "HAProxy's http-messaging",
        checkout: |checkouts| checkouts.haproxy.as_ref(),
        option: "--haproxy",
    },
    Suite {
        name: "nginx",
        runner: "perl",
        what: "nginx's proxy tests",
        checkout: |checkouts| checkouts.nginx_tests.as_ref(),
        option: "--nginx-tests",
    },
];

/// Runs each suite that has a checkout.
pub(super) fn run(setting: &Setting<'_>, checkouts: &Checkouts) -> anyhow::Result<Vec<Row>> {
    let directory = setting.directory.join("outside");
    fs::create_dir_all(&directory)?;
    for (name, text) in SCRIPTS {
        fs::write(directory.join(name), text)?;
    }
    let mut rows = Vec::new();
    for suite in SUITES {
        let Some(checkout) = (suite.checkout)(checkouts) else {
            rows.push(Row::not_installed(suite.name, &format!("{} (`{} DIR`)", suite.what, suite.option)));
            continue;
        };
        if find_on_path(suite.runner).is_none() {
            rows.push(Row::not_installed(suite.runner, suite.what));
            continue;
        }
        eprintln!("{}: {}", suite.runner, suite.what);
        rows.push(check::row(suite.runner, suite.what, || {
            let checkout = fs::canonicalize(checkout).context("there is no such checkout")?;
            let results = suite.results(&checkout, &directory, setting)?;
            verdict(&expected(suite.name)?, &results)
        }));
        setting.stop.check()?;
    }
    match &checkouts.http_garden {
        Some(checkout) => {
            let payloads = payloads(checkout, &directory, setting)?;
            rows.extend(gateway::run_cases(setting, &Cases::Payloads(payloads))?);
        }
        None => rows.push(Row::not_installed("python3", "HTTP Garden (`--http-garden DIR`)")),
    }
    Ok(rows)
}

/// The outcome of one test, as `suites.py` reports it.
#[derive(Deserialize)]
struct TestResult {
    name: String,
    passed: bool,
    cause: String,
}

impl Suite {
    fn results(
        &self,
        checkout: &Path,
        directory: &Path,
        setting: &Setting<'_>,
    ) -> anyhow::Result<Vec<TestResult>> {
        let mut command = Command::new("python3");
        command.arg(directory.join("suites.py")).arg(self.name).arg(checkout);
        command.env("PROGRAM", setting.program);
        let printed = child::output_of("suites.py", command, LIMIT, setting.stop)?;
        let lines = printed.lines().filter(|line| line.starts_with('{'));
        lines.map(|line| serde_json::from_str(line).context("suites.py printed no result")).collect()
    }
}

fn expected(suite: &str) -> anyhow::Result<Expected> {
    Expected::read_of(include_str!("expected_failures.toml"), suite, "")
}

/// Returns how many tests passed and failed as expected.
///
/// # Errors
/// A test failed that is not listed, an entry matches no failure, or nothing passed.
fn verdict(expected: &Expected, results: &[TestResult]) -> anyhow::Result<String> {
    let failed = results.iter().filter(|result| !result.passed);
    expected.check(&failed.map(|result| (result.name.clone(), result.cause.clone())).collect::<Vec<_>>())?;
    let passed = results.iter().filter(|result| result.passed).count();
    ensure!(passed > 0, "no test passed");
    Ok(format!("{passed} tests passed, {} failed as expected", results.len() - passed))
}

/// Payloads of the HTTP Garden, each in the pieces in which it is sent.
fn payloads(checkout: &Path, directory: &Path, setting: &Setting<'_>) -> anyhow::Result<Vec<Vec<Vec<u8>>>> {
    let count = if setting.is_full { FULL_PAYLOADS } else { QUICK_PAYLOADS };
    let mut command = Command::new("python3");
    let checkout = fs::canonicalize(checkout).context("there is no such checkout")?;
    command.arg(directory.join("garden.py")).arg(checkout).arg(count.to_string());
    let printed = child::output_of("garden.py", command, LIMIT, setting.stop)?;
    let payloads: Vec<_> =
        printed.lines().map(|line| line.split(' ').map(bytes_of).collect()).collect::<anyhow::Result<_>>()?;
    ensure!(payloads.len() == count, "garden.py printed {} payloads instead of {count}", payloads.len());
    Ok(payloads)
}

fn bytes_of(hexadecimal: &str) -> anyhow::Result<Vec<u8>> {
    let digits: Vec<_> = hexadecimal.chars().filter_map(|digit| digit.to_digit(16)).collect();
    ensure!(digits.len() == hexadecimal.len() && digits.len().is_multiple_of(2), "not hexadecimal");
    Ok(digits.chunks_exact(2).filter_map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok()).collect())
}

const SCRIPTS: [(&str, &str); 5] = [
    ("gateway.py", include_str!("gateway.py")),
    ("haproxy.py", include_str!("haproxy.py")),
    ("nginx.py", include_str!("nginx.py")),
    ("suites.py", include_str!("suites.py")),
    ("garden.py", include_str!("garden.py")),
];

const QUICK_PAYLOADS: usize = 5_000;
const FULL_PAYLOADS: usize = 10_000;
/// Most of the time is spent in nginx's tests, which wait for timeouts.
const LIMIT: Duration = Duration::from_mins(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn result(name: &str, passed: bool) -> TestResult {
        TestResult { name: name.to_owned(), passed, cause: String::new() }
    }

    #[test]
    fn every_suite_has_a_list() {
        for suite in SUITES {
            assert!(expected(suite.name).unwrap().names().count() > 0);
        }
    }

    #[test]
    fn a_failure_must_be_listed_and_something_must_pass() {
        let results = [result("a.t: one", true), result("a.t: two", false), result("b.t", false)];
        let list =
            |names| Expected::read(&format!("[[expected]]\nreason = 'why'\nnames = {names}\n")).unwrap();
        assert!(verdict(&list("['a.t: two', 'b*']"), &results).is_ok());
        assert!(verdict(&list("['a.t: two']"), &results).is_err());
        assert!(verdict(&list("['a.t: two', 'b*', 'a.t: one']"), &results).is_err());
        assert!(verdict(&list("['b*']"), &results[2..]).is_err());
    }

    #[test]
    fn payloads_are_read_from_hexadecimal() {
        assert_eq!(bytes_of("474554").unwrap(), b"GET");
        assert!(bytes_of("47455").is_err() && bytes_of("4x").is_err());
    }
}
