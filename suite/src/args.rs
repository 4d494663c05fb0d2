//! The arguments of `thruway-suite`.

use std::path::PathBuf;
use std::slice;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser};

use crate::case::{CASES, Case, Workload};
use crate::peers::{PEERS, Peer};

/// Run the workloads of published reports, beside the peers that are found on this machine
#[derive(clap::Parser)]
#[command(name = "thruway-suite", version)]
#[command(after_help = AFTER)]
pub(crate) struct SuiteArgs {
    /// The workload
    #[arg(value_name = "NAME", value_parser = names())]
    name: String,
    /// Time limit of the whole run. If it is too short, the suite shortens measurements, then measures less
    /// often, then leaves out cases and names them
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = parse_time)]
    pub(crate) limit: Duration,
    /// Duration of each measurement
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    pub(crate) duration: Duration,
    /// Number of rounds of each case; intervals of 95 % need 6
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(2..=100))]
    pub(crate) rounds: u16,
    /// Only cases with one of these texts in the name
    #[arg(long, value_name = "TEXT,…", value_delimiter = ',')]
    cases: Vec<String>,
    /// Only these peers; `none` for ours alone [default: all that are found]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    peers: Vec<String>,
    /// The folder `peers` of the repository, in which peers are built
    #[arg(long, value_name = "DIR")]
    pub(crate) peers_from: Option<PathBuf>,
    /// Build the peers that take part first
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
    /// Returns the cases that the user asks for, in the order in which they run.
    pub(crate) fn chosen_cases(&self) -> anyhow::Result<Vec<Case>> {
        let workload = Workload::from_str(&self.name, false).ok();
        let workloads = workload.as_ref().map_or(Workload::published(), slice::from_ref);
        let all: Vec<_> = CASES.iter().filter(|case| workloads.contains(&case.workload)).collect();
        for text in &self.cases {
            if !all.iter().any(|case| case.name.contains(text)) {
                let names: Vec<_> = all.iter().map(|case| case.name.as_str()).collect();
                bail!("no case is called `{text}`: there are `{}`", names.join("`, `"));
            }
        }
        let is_chosen =
            |case: &&Case| self.cases.is_empty() || self.cases.iter().any(|text| case.name.contains(text));
        Ok(all.into_iter().filter(is_chosen).cloned().collect())
    }

    /// Returns the peers that the user allows and that have a part in some of `cases`, and the peers that
    /// some of the cases need; ours first.
    pub(crate) fn chosen_peers(&self, cases: &[Case]) -> anyhow::Result<Vec<&'static Peer>> {
        // No peer has the name `none`.
        let known: Vec<_> = PEERS.iter().map(|peer| &*peer.name).chain(["none"]).collect();
        for name in &self.peers {
            ensure!(known.contains(&&**name), "no peer is called `{name}`: there are {}", known.join(", "));
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

const AFTER: &str = r"Servers have a core of their own, and so has the load generator, where there are two.
Without `--peers-from`, the peers are nginx, HAProxy and h2o, as far as they are installed; wrk, ab and h2load
check the load generator.

Examples:
  thruway-suite plaintext --limit 1m --peers nginx
  thruway-suite all --peers-from peers --report target/suite

Exit codes:
  0    Every request was answered as expected
  1    Some were not, or a server has died
  2    The arguments cannot be used, or nothing could be measured
  130  It was interrupted; what was measured is reported. At a second signal it ends at once";

/// Parses a time that is more than 0, such as `500ms` or `2m`.
fn parse_time(text: &str) -> anyhow::Result<Duration> {
    let time = humantime::parse_duration(text).context("it is no time")?;
    ensure!(!time.is_zero(), "it must be more than 0");
    Ok(time)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn only_peers_that_are_allowed_and_have_a_part_or_are_needed_are_chosen() {
        let chosen = |line: &str| {
            let args = SuiteArgs::parse_from(["suite"].into_iter().chain(line.split(' ')));
            let peers = args.chosen_peers(&args.chosen_cases().unwrap()).unwrap();
            let built = peers.into_iter().filter(|peer| peer.program.place().is_some());
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
