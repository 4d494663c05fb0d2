//! `cargo xtask h2spec`: runs the HTTP/2 conformance tests of `summerwind/h2spec` against the origin server
//! and the gateway.
//!
//! The tests are not part of this repository. Go builds them from the versions in `go.mod` and `go.sum`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::server::Server;
use crate::stop::Stop;
use crate::{child, packages, program};

/// Builds the server and the tests, and runs the tests.
///
/// # Errors
/// A test failed or was skipped, or a program did not run.
pub(crate) fn run() -> anyhow::Result<()> {
    let stop = Stop::new(LIMIT)?;
    let tests = packages::go("xtask/src/h2spec", &["github.com/summerwind/h2spec/cmd/h2spec"], &stop)?;
    let thruway = program::thruway(&stop)?;
    let directory = tempfile::Builder::new().prefix("thruway-h2spec-").tempdir()?;
    let start =
        |name: &str, config: &str| Server::serve(&thruway, config, &directory.path().join(name), &stop);
    let origin = start("origin.toml", include_str!("origin.toml"))?;
    let gateway = include_str!("gateway.toml").replace("{origin}", origin.address());
    let gateway = start("gateway.toml", &gateway)?;
    for (name, server) in [("origin", &origin), ("gateway", &gateway)] {
        println!("{name:8} {}", run_tests(&tests.join("h2spec"), server.port(), &stop).context(name)?);
    }
    gateway.end(&stop)?;
    origin.end(&stop).map(drop)
}

/// On this path, the server responds only after it has received the whole request. On other paths, the
/// response may be complete before the server receives the malformed frame. The test would then fail.
const TARGET_PATH: &str = "/upload";

/// Runs all tests, and returns the line with the counts.
fn run_tests(tests: &Path, port: &str, stop: &Stop) -> anyhow::Result<String> {
    let mut command = Command::new(tests);
    command.args(["--strict", "--host", "127.0.0.1", "--port", port, "--path", TARGET_PATH]);
    let printed = child::any_output_of(command, RUN_LIMIT, stop)?;
    let sum = printed.lines().rev().find(|line| line.contains(" tests, ")).context("there is no result")?;
    let expected = format!("{TESTS} tests, {TESTS} passed, 0 skipped, 0 failed");
    let failures = printed.split("Failures:").nth(1).unwrap_or_default().trim();
    ensure!(sum == expected, "{sum}\n{failures}");
    Ok(sum.to_owned())
}

/// Number of tests.
const TESTS: usize = 146;

const LIMIT: Duration = Duration::from_hours(1);
const RUN_LIMIT: Duration = Duration::from_mins(5);
