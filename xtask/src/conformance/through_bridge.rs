//! The scenarios for servers through `thruway mcp bridge`, over HTTP on both sides, with one hop and with
//! two.
//!
//! A bridge must not change any result: checks that pass or are skipped without a bridge must pass or be
//! skipped with it. A scenario that a bridge makes inapplicable fails the run too.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;

use super::suite::{self, Scenario, Side, Status, Suite, report};
use crate::server::Server;
use crate::stop::Stop;

/// Revisions with requirements.
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// The numbers of bridges, one behind the other.
const HOPS: [usize; 2] = [1, 2];

/// Runs the scenarios without a bridge and through bridges, and compares the results.
///
/// # Errors
/// A check failed, or has passed without a bridge and not with it, or something could not be run.
pub(super) fn run(programs: &Path, suite: &Suite, stop: &Stop) -> anyhow::Result<()> {
    let mut mistakes = Vec::new();
    println!("{:23} {:>9} {:>6} {:>6} {:>7}", "", "scenarios", "passed", "failed", "skipped");
    for revision in REVISIONS {
        let direct = run_through(programs, suite, 0, revision, stop)?;
        print_line(revision, 0, &direct);
        mistakes.extend(failures(&direct).map(|failure| format!("{revision}: {failure}")));
        for hops in HOPS {
            let bridged = run_through(programs, suite, hops, revision, stop)?;
            print_line(revision, hops, &bridged);
            let found = failures(&bridged).chain(losses(&direct, &bridged));
            mistakes.extend(found.map(|mistake| format!("{revision}, {hops} bridges: {mistake}")));
        }
    }
    report(&mistakes)
}

/// The results of the requirements of a revision, through `hops` bridges.
fn run_through(
    programs: &Path,
    installed: &Suite,
    hops: usize,
    revision: &str,
    stop: &Stop,
) -> anyhow::Result<Vec<Scenario>> {
    let directory = tempfile::Builder::new().prefix("thruway-conformance-").tempdir()?;
    let output = directory.path().join("results");
    let log = directory.path().join("server.log");
    let server = Server::start(&programs.join("conformance-server"), &["--listen", LISTEN], &log, stop)?;
    let mut url = format!("{}/mcp", server.url());
    let mut servers = vec![server];
    for hop in 0..hops {
        let log = directory.path().join(format!("bridge-{hop}.log"));
        let arguments = ["mcp", "bridge", "--listen", LISTEN, &url];
        let bridge = Server::start(&programs.join("thruway"), &arguments, &log, stop)?;
        url = format!("{}/mcp", bridge.url());
        servers.push(bridge);
    }
    let arguments = ["--requirements", revision];
    installed
        .run(Side::Server, &url, &arguments, &output, stop)
        .with_context(|| format!("{revision} through {hops} bridges"))?;
    // The nearest first: it still talks to the next one while it ends.
    for server in servers.into_iter().rev() {
        server.end(stop)?;
    }
    suite::read(&output, Side::Server)
}

fn print_line(revision: &str, hops: usize, scenarios: &[Scenario]) {
    let count = |status: Status| scenarios.iter().map(|scenario| scenario.count(status)).sum::<usize>();
    let failed = scenarios.iter().map(|scenario| scenario.failures().count()).sum::<usize>();
    let (passed, skipped) = (count(Status::Success), count(Status::Skipped));
    let name = match hops {
        0 => format!("{revision} direct"),
        1 => format!("{revision} 1 bridge"),
        _ => format!("{revision} {hops} bridges"),
    };
    println!("{name:23} {:9} {passed:6} {failed:6} {skipped:7}", scenarios.len());
}

fn failures(scenarios: &[Scenario]) -> impl Iterator<Item = String> {
    scenarios
        .iter()
        .flat_map(|scenario| scenario.failures().map(|check| format!("{}: {check}", scenario.name)))
}

/// The checks that have passed directly, and have not even run through bridges.
fn losses(direct: &[Scenario], bridged: &[Scenario]) -> impl Iterator<Item = String> {
    let passed = |scenario: &Scenario| scenario.count(Status::Success);
    let bridged: BTreeMap<_, _> =
        bridged.iter().map(|scenario| (scenario.name.clone(), passed(scenario))).collect();
    direct.iter().filter_map(move |scenario| {
        let (expected, found) = (passed(scenario), bridged.get(&scenario.name).copied().unwrap_or(0));
        let name = &scenario.name;
        (found < expected).then(|| format!("{name}: {found} checks have passed, {expected} without a bridge"))
    })
}

const LISTEN: &str = "127.0.0.1:0";

#[cfg(test)]
mod tests {
    use super::super::suite::tests::scenario;
    use super::*;

    /// A bridge that answered with JSON where the server alone answers with a stream made three checks
    /// inapplicable, and the suite called that a pass.
    #[test]
    fn a_check_that_a_bridge_makes_inapplicable_is_a_loss() {
        let direct = [scenario("polling", Status::Success), scenario("other", Status::Success)];
        let bridged = [scenario("polling", Status::Info), scenario("other", Status::Success)];
        let lost: Vec<_> = losses(&direct, &bridged).collect();
        assert_eq!(lost, ["polling: 0 checks have passed, 1 without a bridge"]);
        assert_eq!(losses(&direct, &direct).count(), 0);
        assert_eq!(losses(&bridged, &direct).count(), 0, "more is no loss");
    }
}
