//! `cargo xtask conformance`: the official MCP conformance suite, against the server and the client in
//! `conformance/`.
//!
//! The suite is not part of this repository; it is installed with npm, at the version named here. Its
//! scenarios for authorization servers are not run: there is none here. `--through bridge` runs the scenarios
//! for servers through bridges.

// the suite
mod suite;

// the bridges
mod through_bridge;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;

use crate::child;
use crate::expected::Expected;
use crate::packages;
use crate::program::repository;
use crate::server::Server;
use crate::stop::Stop;
use suite::{Scenario, Side, Status, Suite, report};

/// Options of `cargo xtask conformance`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A directory where npm has installed the suite, instead of installing it
    #[arg(long, value_name = "DIR")]
    suite: Option<PathBuf>,
    /// Run the scenarios for servers through one and two of these, and expect what the server alone achieves
    #[arg(long, value_name = "WHAT")]
    through: Option<Through>,
}

/// A program between the suite and the server.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Through {
    /// `thruway mcp bridge`, over HTTP on both sides
    Bridge,
}

/// The list in `sets.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sets {
    set: Vec<Set>,
}

/// Scenarios that run together.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    side: Side,
    name: String,
    /// Arguments of the suite that select them.
    arguments: Vec<String>,
    /// Arguments of our server.
    #[serde(default)]
    of_server: Vec<String>,
}

fn sets() -> anyhow::Result<Vec<Set>> {
    Ok(toml::from_str::<Sets>(include_str!("sets.toml"))?.set)
}

/// Builds the server and the client, installs the suite if need be, runs it, and prints what came of each
/// set.
///
/// # Errors
/// A check failed that is not on the list of expected failures, or a scenario on it passed, or something
/// could not be run.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let programs = build(options.through, &Stop::new(BUILD_LIMIT)?)?;
    let suite = match &options.suite {
        Some(directory) => Suite::at(directory)?,
        None => Suite::at(&packages::npm("conformance", &Stop::new(INSTALL_LIMIT)?)?)?,
    };
    let stop = Stop::new(RUN_LIMIT)?;
    match options.through {
        None => run_all(&programs, &suite, &stop),
        Some(Through::Bridge) => through_bridge::run(&programs, &suite, &stop),
    }
}

/// Runs all sets without anything in between.
fn run_all(programs: &Path, suite: &Suite, stop: &Stop) -> anyhow::Result<()> {
    let expected = Expected::read(LIST)?;
    let mut mistakes = Vec::new();
    let mut seen = BTreeSet::new();
    println!(
        "{:23} {:>9} {:>6} {:>6} {:>8} {:>7}",
        "", "scenarios", "passed", "failed", "expected", "skipped"
    );
    for set in &sets()? {
        let scenarios =
            run_set(programs, suite, set, stop).with_context(|| format!("set `{}`", set.name()))?;
        let tally = Tally::of(&scenarios, &expected);
        println!("{:23} {tally}", set.name());
        mistakes.extend(tally.mistakes.into_iter().map(|mistake| format!("{}: {mistake}", set.name())));
        seen.extend(scenarios.into_iter().map(|scenario| scenario.name));
    }
    let unknown = expected.names().filter(|name| !seen.contains(*name));
    mistakes.extend(unknown.map(|name| format!("`{name}` is expected to fail and was never run")));
    report(&mistakes)
}

impl Set {
    fn name(&self) -> String {
        let side = if self.side == Side::Server { "server" } else { "client" };
        format!("{side} {}", self.name)
    }
}

fn run_set(programs: &Path, installed: &Suite, set: &Set, stop: &Stop) -> anyhow::Result<Vec<Scenario>> {
    let directory = tempfile::Builder::new().prefix("thruway-conformance-").tempdir()?;
    let output = directory.path().join("results");
    match set.side {
        Side::Server => {
            let program = programs.join("conformance-server");
            let log = directory.path().join("server.log");
            let arguments =
                ["--listen", "127.0.0.1:0"].into_iter().chain(set.of_server.iter().map(String::as_str));
            let arguments: Vec<_> = arguments.collect();
            let server = Server::start(&program, &arguments, &log, stop)?;
            installed.run(set.side, &format!("{}/mcp", server.url()), &set.arguments, &output, stop)?;
            server.end(stop)?;
        }
        Side::Client => {
            let program = programs.join("conformance-client");
            // The suite gives it to a shell.
            let program = format!("'{}'", program.display());
            installed.run(set.side, &program, &set.arguments, &output, stop)?;
        }
    }
    suite::read(&output, set.side)
}

/// The results of a set, in numbers of checks.
#[derive(Default)]
struct Tally {
    scenarios: usize,
    passed: usize,
    failed: usize,
    /// Failed, of scenarios that are expected to.
    expected: usize,
    skipped: usize,
    mistakes: Vec<String>,
}

impl Tally {
    fn of(scenarios: &[Scenario], expected: &Expected) -> Self {
        let mut tally = Self { scenarios: scenarios.len(), ..Self::default() };
        for scenario in scenarios {
            tally.passed += scenario.count(Status::Success);
            tally.skipped += scenario.count(Status::Skipped);
            let failures: Vec<_> = scenario.failures().collect();
            match (failures.is_empty(), expected.of(&scenario.name).is_some()) {
                (true, false) => {}
                (false, true) => tally.expected += failures.len(),
                (false, false) => {
                    tally.failed += failures.len();
                    tally.mistakes.extend(failures.iter().map(|check| format!("{}: {check}", scenario.name)));
                }
                (true, true) => tally
                    .mistakes
                    .push(format!("{}: passed; take it off the list of expected failures", scenario.name)),
            }
        }
        tally
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { scenarios, passed, failed, expected, skipped, .. } = self;
        write!(f, "{scenarios:9} {passed:6} {failed:6} {expected:8} {skipped:7}")
    }
}

/// Builds the programs, and returns the directory that they are in.
fn build(through: Option<Through>, stop: &Stop) -> anyhow::Result<PathBuf> {
    let root = repository();
    let target = root.join("target");
    let mut command = Command::new("cargo");
    command
        .current_dir(&root)
        .args(["build", "--package", "thruway-conformance", "--target-dir"])
        .arg(&target);
    if let Some(Through::Bridge) = through {
        command.args(["--package", "thruway"]);
    }
    eprintln!(
        "building `conformance-server`, `conformance-client` and what stands in between, if anything does"
    );
    child::output_of("cargo build --package thruway-conformance", command, BUILD_LIMIT, stop)?;
    Ok(target.join("debug"))
}

/// Scenarios that are expected to fail.
const LIST: &str = include_str!("expected_failures.toml");

const BUILD_LIMIT: Duration = Duration::from_mins(15);
const INSTALL_LIMIT: Duration = Duration::from_mins(5);
const RUN_LIMIT: Duration = Duration::from_mins(5);

#[cfg(test)]
mod tests {
    use super::suite::tests::scenario;
    use super::*;

    #[test]
    fn a_listed_scenario_must_fail_and_any_other_must_pass() {
        assert!(Expected::read(LIST).is_ok());
        assert_eq!(sets().unwrap().len(), 11);
        let list = "[[expected]]\nreason = 'why'\nnames = ['listed']\n";
        let tally = |name, status| Tally::of(&[scenario(name, status)], &Expected::read(list).unwrap());
        let of = |tally: Tally| (tally.failed, tally.expected, tally.mistakes.len());
        assert_eq!(of(tally("listed", Status::Failure)), (0, 1, 0));
        assert_eq!(of(tally("listed", Status::Success)), (0, 0, 1));
        assert_eq!(of(tally("other", Status::Warning)), (1, 0, 1));
        assert_eq!(of(tally("other", Status::Skipped)), (0, 0, 0));
    }
}
