//! Builds the peers that take part in the chosen cases, below `peers/target`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::args::SuiteArgs;
use crate::case::Case;
use crate::debian;
use crate::found::{is_asked_for, is_needed};
use crate::packages;
use crate::peers::{PEERS, Peer, Program};
use crate::process::{Runner, on_path};
use crate::results::Omission;

/// Builds each peer that takes part, and returns the failed ones with the reason.
pub(crate) fn peers(args: &SuiteArgs, cases: &[Case], peers: &Path, runner: Runner<'_>) -> Vec<Omission> {
    let mut unbuilt = Vec::new();
    for peer in wanted(args, cases) {
        if runner.stop.is_set() {
            break;
        }
        eprintln!("preparing {}", peer.name);
        if let Err(error) = build(peer, peers, runner) {
            eprintln!("{} is left out: {error:#}", peer.name);
            let because = format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ");
            unbuilt.push(Omission { what: peer.name.clone(), because });
        }
    }
    unbuilt
}

/// Returns the peers that are built here and take part in some of the cases.
fn wanted(args: &SuiteArgs, cases: &[Case]) -> Vec<&'static Peer> {
    let takes_part = |peer: &Peer| cases.iter().any(|case| peer.takes_part(case));
    let is_wanted = |peer: &&Peer| {
        peer.program.place().is_some()
            && (is_needed(peer, cases) || is_asked_for(peer, args) && takes_part(peer))
    };
    PEERS.iter().filter(is_wanted).collect()
}

fn build(peer: &Peer, peers: &Path, runner: Runner<'_>) -> anyhow::Result<()> {
    match &peer.program {
        Program::Ours(_) | Program::Installed(_) => Ok(()),
        Program::Cargo(package) => {
            let mut cargo = Command::new("cargo");
            cargo.current_dir(peers).args(["build", "--release", "--package", package]);
            cargo.arg("--target-dir").arg(peers.join("target"));
            runner.run(&format!("cargo build --release --package {package}"), &mut cargo, LIMIT)
        }
        Program::Go(command) => {
            on_path("go").context("`go` is not on the path")?;
            let mut go = Command::new("go");
            go.current_dir(peers.join("go")).args(["build", "-trimpath", "-o"]);
            go.arg(peers.join("target/go").join(command)).arg(format!("./{command}"));
            runner.run(&format!("go build ./{command}"), &mut go, LIMIT)
        }
        Program::Debian(package) => debian::newest(peers, package, runner),
        Program::Node(folder) => packages::node(peers, folder, runner),
        Program::Python(folder) => packages::python(peers, folder, runner),
    }?;
    match peer.program.place() {
        Some(place) if !peers.join(&place).exists() => bail!("the build left no `{place}`"),
        _ => Ok(()),
    }
}

/// Limit for one build. A fat link of a large peer takes a minute; all of them share nothing at first.
const LIMIT: Duration = Duration::from_mins(15);

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::case::Workload;
    use crate::cases::cases;

    #[test]
    fn only_what_takes_part_is_built() {
        let names = |line: &str, workloads: &[Workload]| {
            let args = SuiteArgs::parse_from(["suite"].into_iter().chain(line.split(' ')));
            wanted(&args, &cases(workloads)).iter().map(|peer| &*peer.name).collect::<Vec<_>>()
        };
        let gateway = [Workload::Gateway];
        assert_eq!(names("gateway", &gateway), ["haproxy-newest", "nginx-newest", "relay"]);
        assert!(names("gateway --peers nginx", &gateway).is_empty());
        assert_eq!(names("plaintext --peers hyper,nginx", &[Workload::Plaintext]), ["hyper"]);
        assert!(names("plaintext", &[Workload::Plaintext]).contains(&"may_minihttp"));
        assert!(!names("keep-alive", &[Workload::Persistence]).contains(&"may_minihttp"));
        let all = names("all", Workload::published());
        assert!(all.contains(&"rmcp") && !all.contains(&"axum-on-thruway"), "{all:?}");
        assert_eq!(names("mcp-soak --peers none", &[Workload::McpSoak]), ["mcp-on-thruway"]);
        let bridges = names("mcp-bridge", &[Workload::McpBridge]);
        assert_eq!(bridges, ["mcp-on-thruway", "supergateway", "mcp-proxy-npm", "mcp-proxy-python"]);
    }
}
