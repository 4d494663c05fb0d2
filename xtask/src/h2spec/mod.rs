//! `cargo xtask h2spec`: the conformance tests of HTTP/2 (`summerwind/h2spec`), against the origin and
//! through the gateway.
//!
//! They are not part of this repository: Go builds them, at the versions that `go.mod` and `go.sum` beside
//! this file name.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::child;
use crate::packages;
use crate::program::{self, Profile, find_on_path};
use crate::server::Server;
use crate::stop::Stop;

/// Options of `cargo xtask h2spec`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Use this program `h2spec` instead of building it
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Run the tests so many times: each run must pass
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: u32,
}

/// Builds server and tests, and runs them.
///
/// # Errors
/// A test failed or was left out, or something could not be run.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let stop = Stop::new(LIMIT)?;
    let tests = match &options.program {
        Some(program) => program.clone(),
        None => build_tests(&stop)?,
    };
    let thruway = program::build(Profile::Dev, &stop)?;
    let directory = tempfile::Builder::new().prefix("thruway-h2spec-").tempdir()?;
    let start =
        |name: &str, config: &str| Server::serve(&thruway, config, &directory.path().join(name), &stop);
    let origin = start("origin.toml", ORIGIN)?;
    let gateway = start("gateway.toml", &GATEWAY.replace("{origin}", origin.address()))?;
    let mut outcomes = Vec::new();
    for run in 1..=options.runs {
        for (name, server) in [("origin", &origin), ("gateway", &gateway)] {
            let outcome = run_tests(&tests, &server.url(), &stop);
            outcomes.push((name, outcome.with_context(|| format!("{name}, run {run} of {}", options.runs))));
        }
    }
    gateway.end(&stop)?;
    origin.end(&stop)?;
    for (name, outcome) in outcomes {
        println!("{name:8} {}", outcome?);
    }
    Ok(())
}

/// The origin and the gateway accept nothing but HTTP/2: other listeners answer an invalid preface as
/// HTTP/1.1 does, which the tests do not expect.
const ORIGIN: &str = include_str!("origin.toml");

const GATEWAY: &str = include_str!("gateway.toml");

/// A path with a response that has a body and follows the whole request. Responses of other paths may be
/// complete before the malformed frame of a test arrives, and the test then fails.
const TARGET_PATH: &str = "/upload";

/// Runs all tests, and returns their last line.
fn run_tests(tests: &Path, address: &str, stop: &Stop) -> anyhow::Result<String> {
    let port = address.rsplit(':').next().unwrap_or_default();
    let mut command = Command::new(tests);
    command.args(["--strict", "--host", "127.0.0.1", "--port", port, "--path", TARGET_PATH]);
    let printed = child::any_output_of(command, RUN_LIMIT, stop)?;
    let sum = printed.lines().rev().find(|line| line.contains(" tests, ")).context("there is no result")?;
    let expected = format!("{TESTS} tests, {TESTS} passed, 0 skipped, 0 failed");
    let failures = printed.split("Failures:").nth(1).unwrap_or_default().trim();
    ensure!(sum == expected, "{sum}\n{failures}");
    Ok(sum.to_owned())
}

fn build_tests(stop: &Stop) -> anyhow::Result<PathBuf> {
    find_on_path("go").context("`go` is not on the path")?;
    let command = "github.com/summerwind/h2spec/cmd/h2spec";
    Ok(packages::go_module("xtask/src/h2spec", "h2spec", &[command], stop)?.join("h2spec"))
}

/// Number of tests.
const TESTS: usize = 146;

const LIMIT: Duration = Duration::from_hours(1);
const RUN_LIMIT: Duration = Duration::from_mins(5);
