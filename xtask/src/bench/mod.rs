//! Measures Thruway against its peers: alternating runs on one machine, reported as pairwise ratios.
//!
//! Most workloads are those of `thruway-suite`: for these, peers are built here and the suite is called. What stands here besides is what the
//! suite does not know: axum on our engine, SDKs of MCP in both eras beside bare echoes, and a million messages, for which `wrk` makes the load; and
//! clients of MCP, bridges and the command line, which are the load themselves or have ours.
//!
//! Nothing here is a test: figures depend on the machine, and only ratios taken in one run are compared.
//!
//! A case (one load of one workload) is run in rounds; in each round every peer gets a pair of runs, ours and then
//! its own. Each run starts its server anew on the first core, checks what it answers, loads it from the
//! second core and reads what it cost from `/proc`.

// what is compared, and by what it is judged
mod peers;
mod workloads;
mod metric;
mod targets;

// what the suite measures
mod suite;

// before the runs
mod prepare;
mod packages;
mod debian;
mod versions;
mod machine;

// one run
mod server;
mod request;
mod probe;
mod wrk;
mod stdio;
mod soak;
mod calls;
mod bridge;
mod command;
mod measure;

// all runs
mod plan;
mod settle;
mod session;

// what came out
mod results;
mod report;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::stop::Stop;
use peers::Peer;
use plan::Plan;
use workloads::{Case, Load, Selection};

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Workload to run.
    #[arg(value_enum, default_value_t = Selection::All)]
    workload: Selection,
    /// Cases to run: those whose names contain one of these texts; all of the workload unless given.
    #[arg(long, value_delimiter = ',', value_name = "TEXT,…")]
    cases: Vec<String>,
    /// Peers to compare with, by name; all that take part in the workload unless given.
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    peers: Vec<String>,
    /// What is measured as ours instead of `thruway`: a name of the table of peers, or the path of a program that
    /// takes `serve --listen ADDR --workers 1`.
    #[arg(long, value_name = "NAME|PATH")]
    ours: Option<String>,
    /// Pairs of runs for each case and peer; more narrow the median down.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,
    /// Seconds that a server is loaded in one run.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Stop after so many minutes and report what there is.
    #[arg(long, default_value_t = 120, value_name = "MINUTES", value_parser = clap::value_parser!(u32).range(1..))]
    time_limit: u32,
    /// File for the report in Markdown, instead of standard output.
    #[arg(long, value_name = "FILE.md")]
    output: Option<PathBuf>,
    /// File for every figure of every run, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Builds what is needed, runs the cases, writes the report.
///
/// # Errors
/// When there is nothing to run, when the time limit or a signal ended the runs early, and when any run failed; what was
/// measured is reported all the same.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let stop = Stop::new(Duration::from_secs(60 * u64::from(options.time_limit)))?;
    if let Some(name) = options.workload.in_suite() {
        return suite::run(options, name, &stop);
    }
    machine::raise_descriptor_limit()?;
    let cases = workloads::select(options.workload, &options.cases)?;
    let selected = peers::select(&options.peers)?;
    let ready = prepare::all(&wanted(options, &cases, &selected), options.ours.as_deref(), &stop)?;
    let plan = Plan::new(options, &cases, &selected, &ready)?;
    let machine = machine::describe(&stop);
    let results = session::run(&plan, &stop);
    let verdicts = targets::judge(&results, &cases);
    let report = report::Report {
        options,
        machine: &machine,
        ready: &ready,
        left_out: &plan.left_out,
        results: &results,
        verdicts: &verdicts,
    };
    write(options.output.as_deref(), &report.to_markdown())?;
    if let Some(path) = &options.json {
        write(Some(path), &report.to_json()?)?;
    }
    match (results.failures.len(), &results.ended_early) {
        (0, None) => Ok(()),
        (0, Some(reason)) => bail!("the runs ended early: {reason}"),
        (n, _) => bail!("{n} runs failed; the report names them"),
    }
}

/// Every peer that some of the cases needs, ours among them.
fn wanted(options: &Options, cases: &[&'static Case], selected: &[&'static Peer]) -> Vec<&'static Peer> {
    let workloads: Vec<_> = cases.iter().map(|case| case.workload).collect();
    let ours = workloads.iter().filter(|_| options.ours.is_none()).map(|workload| workload.ours());
    let mut wanted: Vec<&'static Peer> = ours.filter_map(peers::find).collect();
    wanted.extend(options.ours.as_deref().and_then(peers::find));
    if cases.iter().any(|case| matches!(case.load, Load::Bridge { .. })) {
        wanted.extend(peers::find(bridge::BEHIND));
    }
    if cases.iter().any(|case| matches!(case.load, Load::Command { .. })) {
        wanted.extend(peers::find(command::BESIDE));
    }
    wanted.extend(selected.iter().filter(|peer| peer.workloads.iter().any(|w| workloads.contains(w))));
    wanted.sort_by_key(|peer| peers::position(peer));
    wanted.dedup_by_key(|peer| peer.name);
    wanted
}

fn write(path: Option<&Path>, text: &str) -> anyhow::Result<()> {
    match path {
        Some(path) => {
            std::fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
            eprintln!("wrote {}", path.display());
        }
        None => print!("{text}"),
    }
    Ok(())
}
