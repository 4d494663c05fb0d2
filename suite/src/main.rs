//! `thruway-suite`: runs the workloads of published benchmark reports on Thruway and its peers, and writes a
//! report. `cargo xtask bench` builds the peers and runs the suite.

// the arguments
mod args;

// the cases
mod case;
mod plan;

// the peers
mod peers;
mod build;
mod debian;
mod found;
mod generators;
mod hand_written;

// the machine and the servers on it
mod certificate;
mod cores;
mod machine;
mod server;

// the runs
mod process;
mod reloads;
mod soak;
mod idle_sessions;
mod calls;
mod commands;
mod counter;
mod contender;
mod session;

// the results
mod figures;
mod results;

// the report
mod targets;
mod sections;
mod report;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{Write as _, stdout};
use std::path::absolute;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use thruway_bench::ProcessGroups;
use thruway_net::{Clock, raise_descriptor_limit};

use args::SuiteArgs;
use certificate::Certificate;
use cores::{Cores, run_on};
use found::{Found, FoundServers};
use generators::Generator;
use peers::Setup;
use plan::Plan;
use process::{Runner, on_path, stop_flag};
use results::{ServerFacts, SuiteReport, SuiteSettings};
use server::ServerResources;
use session::Session;

fn main() -> ExitCode {
    run(&SuiteArgs::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(EXIT_UNUSABLE)
    })
}

/// Exit code if a request or a server failed.
const EXIT_FAILED: u8 = 1;

/// Exit code for invalid arguments, and for a run that measured nothing. clap uses the same code.
const EXIT_UNUSABLE: u8 = 2;

/// Exit code after a signal. Shells report the same code for SIGINT.
const EXIT_INTERRUPTED: u8 = 130;

/// Measures the cases, and writes the reports.
fn run(args: &SuiteArgs) -> anyhow::Result<ExitCode> {
    if let Some(directory) = &args.report {
        let unwritable = || format!("cannot write to `{}`", directory.display());
        fs::create_dir_all(directory).with_context(unwritable)?;
    }
    let report = measure(args)?;
    let markdown = report.to_markdown();
    if let Some(directory) = &args.report {
        fs::write(directory.join(MARKDOWN), &markdown)?;
        fs::write(directory.join(JSON), serde_json::to_string_pretty(&report)? + "\n")?;
    }
    // The reader may have closed the pipe.
    let _ = writeln!(stdout(), "{}", markdown.trim_end());
    Ok(match report {
        report if report.is_interrupted => ExitCode::from(EXIT_INTERRUPTED),
        report if !report.has_figures() => {
            eprintln!("error: nothing was measured; the report gives the reasons");
            ExitCode::from(EXIT_UNUSABLE)
        }
        report if report.is_clean() => ExitCode::SUCCESS,
        _ => ExitCode::from(EXIT_FAILED),
    })
}

fn measure(args: &SuiteArgs) -> anyhow::Result<SuiteReport> {
    let cases = args.chosen_cases()?;
    if let Some(generator) = args.load_with {
        on_path(generator.name())?;
    }
    let groups = ProcessGroups::default();
    let stop = stop_flag(&groups, EXIT_INTERRUPTED)?;
    raise_descriptor_limit();
    let cores = Cores::assign();
    let peers = args.peers_from.as_ref().map(absolute).transpose()?;
    let runner = Runner { groups: &groups, stop: &stop };
    let found = FoundServers::look(args, &cases, peers.as_deref(), runner)?;
    let ours = found.servers.first().context("the program under test is missing")?;
    let environment = machine::describe(ours, &cores, Generator::versions());
    let certificate = Certificate::make()?;
    let resources =
        ServerResources { cores: &cores, runner, certificate: &certificate, peers: peers.as_deref() };
    run_on(&cores.load);
    let names: Vec<_> = cases.iter().map(|case| case.name.clone()).collect();
    let mut session = Session {
        servers: &found.servers,
        resources,
        load_with: args.load_with,
        results: Vec::new(),
        left_out: found.left_out,
    };
    let plan = Plan::new(session.feasible(cases), args.duration, args.rounds.into(), args.limit);
    // Removes old reports. Otherwise, a killed run would leave the old reports in place.
    for name in [MARKDOWN, JSON] {
        let _ = args.report.as_ref().map(|directory| fs::remove_file(directory.join(name)));
    }
    let start = Clock::system().now_exact();
    session.run(&plan, args.limit);
    session.results.sort_by_key(|result| names.iter().position(|name| *name == result.name));
    Ok(SuiteReport {
        format: SuiteReport::FORMAT.to_owned(),
        environment,
        settings: SuiteSettings {
            command: command_line(),
            duration_seconds: plan.duration.as_secs_f64(),
            warm_up_seconds: Plan::WARM_UP.as_secs_f64(),
            rounds: plan.rounds as u64,
            limit_seconds: args.limit.as_secs_f64(),
        },
        servers: facts(&found.servers, &session),
        cases: session.results,
        left_out: session.left_out,
        is_interrupted: stop.is_set(),
        elapsed_seconds: Clock::system().now_exact().saturating_sub(start).as_secs_f64(),
    })
}

/// Returns the command line of this run.
fn command_line() -> String {
    let quoted = |word: String| if word.contains(' ') { format!("'{word}'") } else { word };
    let words = ["thruway-suite".to_owned()].into_iter().chain(env::args().skip(1).map(quoted));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the servers that have results or failures in at least one case.
fn facts(servers: &[Found], session: &Session<'_>) -> Vec<ServerFacts> {
    let has_part = |found: &&Found| {
        let mut candidates = session.results.iter().flat_map(|case| &case.candidates);
        candidates.any(|candidate| candidate.name.split(' ').next() == Some(&*found.peer.name))
    };
    let fact = |found: &Found| {
        let program = found.program.file_name().unwrap_or_default().to_string_lossy();
        let setups = &found.peer.setups;
        let command = |setup: &Setup| format!("{program} {}", setup.arguments.join(" "));
        let commands: BTreeSet<_> = setups.values().map(command).collect();
        let configs: Vec<_> = setups.values().filter_map(|setup| setup.config.as_deref()).collect();
        ServerFacts {
            name: found.peer.name.clone(),
            version: found.version.clone(),
            about: found.peer.about.clone(),
            command: commands.into_iter().collect::<Vec<_>>().join("; "),
            config: (!configs.is_empty()).then(|| configs.join("\n")),
        }
    };
    servers.iter().filter(has_part).map(fact).collect()
}

const MARKDOWN: &str = "report.md";
const JSON: &str = "report.json";
