//! The arguments of `thruway-suite`.

use std::path::PathBuf;
use std::slice;
use std::time::Duration;

use anyhow::{bail, ensure};
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser};
use thruway_bench::parse_time;

use crate::case::{CASES, Case, Workload};
use crate::generators::Generator;
use crate::peers::{PEERS, Peer};

/// Run the workloads of published benchmark reports with Thruway and other servers (peers) on this machine
#[derive(clap::Parser)]
#[command(name = "thruway-suite", version)]
#[command(after_help = AFTER)]
pub(crate) struct SuiteArgs {
    /// The workload
    #[arg(value_name = "NAME", value_parser = names())]
    name: String,
    /// Time limit of the whole run. If the limit is too short, the suite first shortens the measurements,
    /// then runs fewer rounds, and then skips cases. The report lists the skipped cases
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = parse_time)]
    pub(crate) limit: Duration,
    /// Duration of each measurement, such as `500ms`, `10s` or `2m`; a number without a unit is in seconds
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    pub(crate) duration: Duration,
    /// Number of rounds of each case. A 95 % interval needs 6 rounds
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(2..=100))]
    pub(crate) rounds: u16,
    /// Run only cases whose name contains one of these texts
    #[arg(long, value_name = "TEXT,…", value_delimiter = ',')]
    cases: Vec<String>,
    /// Run only these peers; `none` runs only Thruway [default: all that are found]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    peers: Vec<String>,
    /// The folder `peers` of the repository, with the sources and builds of the peers
    #[arg(long, value_name = "DIR")]
    pub(crate) peers_from: Option<PathBuf>,
    /// Load the servers with this load generator instead of `thruway bench`. The suite skips cases that it
    /// does not support. It only counts, so the report has no response times
    #[arg(long, value_name = "GENERATOR")]
    pub(crate) load_with: Option<Generator>,
    /// Build the required peers first
    #[arg(long, requires = "peers_from")]
    pub(crate) build: bool,
    /// The `thruway` program under test [default: the one beside this program]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) program: Option<PathBuf>,
    /// Write `report.md` and `report.json` into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
}

/// Returns the names of the workloads, and `all`.
fn names() -> PossibleValuesParser {
    let all = PossibleValue::new(ALL).help("W1 to W9");
    Workload::value_variants().iter().filter_map(ValueEnum::to_possible_value).chain([all]).into()
}

impl SuiteArgs {
    /// Returns the selected cases, in the order in which they run.
    pub(crate) fn chosen_cases(&self) -> anyhow::Result<Vec<Case>> {
        let workload = Workload::from_str(&self.name, false).ok();
        let workloads = workload.as_ref().map_or(Workload::published(), slice::from_ref);
        let all: Vec<_> = CASES.iter().filter(|case| workloads.contains(&case.workload)).collect();
        for text in &self.cases {
            if !all.iter().any(|case| case.name.contains(text)) {
                let names: Vec<_> = all.iter().map(|case| case.name.as_str()).collect();
                bail!("no case name contains `{text}`: the cases are `{}`", names.join("`, `"));
            }
        }
        let is_chosen =
            |case: &&Case| self.cases.is_empty() || self.cases.iter().any(|text| case.name.contains(text));
        Ok(all.into_iter().filter(is_chosen).cloned().collect())
    }

    /// Returns the servers for `cases`: Thruway first, then the peers that the user allows, and the peers
    /// that a case needs.
    pub(crate) fn chosen_peers(&self, cases: &[Case]) -> anyhow::Result<Vec<&'static Peer>> {
        // `none` is a valid argument, but not the name of a peer.
        let known: Vec<_> = PEERS.iter().map(|peer| &*peer.name).chain(["none"]).collect();
        for name in &self.peers {
            ensure!(known.contains(&&**name), "unknown peer `{name}`: the peers are {}", known.join(", "));
        }
        let is_allowed = |peer: &Peer| self.peers.is_empty() || self.peers.contains(&peer.name);
        let is_wanted = |peer: &&Peer| {
            let has_part = |case: &Case| case.needs(&peer.name) || is_allowed(peer) && peer.takes_part(case);
            peer.is_ours() || cases.iter().any(has_part)
        };
        Ok(PEERS.iter().filter(is_wanted).collect())
    }
}

const ALL: &str = "all";

const AFTER: &str = r"On machines with two or more cores, the load generator uses a different core than the servers.
Without `--peers-from`, the peers are nginx, HAProxy and h2o if they are installed. If wrk, ab or h2load are
installed, the suite uses them to check its own load generator.

Examples:
  thruway-suite plaintext --limit 1m --peers nginx
  thruway-suite all --peers-from peers --report target/suite

Exit codes:
  0    All responses were as expected
  1    A request failed, or a server ended unexpectedly
  2    The arguments are invalid, or nothing could be measured
  130  A signal ended the run. The report has the results up to the signal. A second signal ends the run at once";

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn duration_without_unit_is_in_seconds() {
        let args = SuiteArgs::parse_from(["suite", "plaintext", "-d", "5", "--limit", "90"]);
        assert_eq!((args.duration, args.limit), (Duration::from_secs(5), Duration::from_secs(90)));
        assert!(SuiteArgs::try_parse_from(["suite", "plaintext", "-d", "0"]).is_err());
    }

    #[test]
    fn allowed_and_required_peers_are_chosen() {
        let chosen = |line: &str| {
            let args = SuiteArgs::parse_from(["suite"].into_iter().chain(line.split(' ')));
            let peers = args.chosen_peers(&args.chosen_cases().unwrap()).unwrap();
            let built = peers.into_iter().filter(|peer| peer.program.build_path().is_some());
            built.map(|peer| &*peer.name).collect::<Vec<_>>()
        };
        assert_eq!(chosen("gateway"), ["haproxy-newest", "nginx-newest", "relay"]);
        assert!(chosen("gateway --peers nginx").is_empty());
        assert_eq!(chosen("plaintext --peers hyper,nginx"), ["hyper"]);
        assert!(chosen("plaintext").contains(&"may_minihttp"));
        assert!(!chosen("keep-alive").contains(&"may_minihttp"));
        let all = chosen("all");
        assert!(all.contains(&"rmcp") && !all.contains(&"axum-on-thruway"), "{all:?}");
        assert_eq!(chosen("mcp-soak --peers none"), ["mcp-on-thruway"]);
        let bridges = chosen("mcp-bridge");
        assert_eq!(bridges, ["mcp-on-thruway", "supergateway", "mcp-proxy-npm", "mcp-proxy-python"]);
    }
}
