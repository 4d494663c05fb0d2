//! `thruway-suite`: the workloads of published reports, as loads for Thruway and its peers, and the report
//! about them. `cargo xtask bench` builds the peers and calls it.

// the arguments and the output
mod args;
mod terminal;

// the cases
mod case;
mod cases;
mod plan;

// the peers
mod peers;
mod build;
mod packages;
mod debian;
mod versions;
mod found;
mod generators;
mod hand_written;

// the machine and the servers on it
mod certificate;
mod cores;
mod machine;
mod server;

// the runs
mod reloads;
mod process;
mod soak;
mod calls;
mod commands;
mod counter;
mod contender;
mod session;

// the results
mod figures;
mod results;

// the report
mod layout;
mod targets;
mod floor;
mod sections;
mod tables;
mod forms;
mod html;

#[cfg(test)]
mod tests;

use std::fs;
use std::io::{ErrorKind, Write as _, stderr};
use std::path::{Path, absolute};
use std::process::ExitCode;

use clap::Parser as _;
use thruway_bench::ProcessGroups;
use thruway_net::{Clock, raise_descriptor_limit};

use args::{Form, SuiteArgs};
use case::Case;
use cases::cases;
use certificate::Certificate;
use cores::{Cores, run_on};
use found::{Found, FoundServers};
use generators::Generator;
use plan::{Plan, RequestedPlan};
use process::{Runner, on_path};
use results::{ServerFacts, SuiteReport, SuiteSettings};
use server::ServerResources;
use session::Session;
use terminal::{EXIT_FAILED, EXIT_INTERRUPTED, Failure, stop_flag};

fn main() -> ExitCode {
    run(&SuiteArgs::parse()).unwrap_or_else(|failure| {
        let _ = write!(stderr(), "{failure}");
        ExitCode::from(EXIT_UNUSABLE)
    })
}

/// Exit code for arguments that cannot be used; that of clap.
const EXIT_UNUSABLE: u8 = 2;

/// Measures a suite, or makes the reports of one that was measured before.
fn run(args: &SuiteArgs) -> Result<ExitCode, Failure> {
    if args.schema {
        terminal::print(&format!("{:#}", SuiteReport::schema().as_value()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(directory) = &args.report {
        fs::create_dir_all(directory).map_err(|error| unwritable(directory, &error))?;
    }
    let report = match &args.from {
        Some(path) => read(path)?,
        None => measure(args)?,
    };
    show(&report, args)?;
    Ok(match report {
        _ if args.from.is_some() => ExitCode::SUCCESS,
        SuiteReport { is_interrupted: true, .. } => ExitCode::from(EXIT_INTERRUPTED),
        report if !report.has_figures() => {
            return Err(Failure::new("nothing could be measured").with_hint("the report says why"));
        }
        report if report.is_clean() => ExitCode::SUCCESS,
        _ => ExitCode::from(EXIT_FAILED),
    })
}

fn measure(args: &SuiteArgs) -> Result<SuiteReport, Failure> {
    let cases = chosen(args)?;
    let groups = ProcessGroups::default();
    let stop = stop_flag(&groups)?;
    raise_descriptor_limit();
    let cores = Cores::share_out();
    let peers_from = found::peers_from(args).and_then(|directory| absolute(directory).ok());
    let unbuilt = match (&peers_from, args.build) {
        (Some(peers), true) => build::peers(args, &cases, peers, Runner { groups: &groups, stop: &stop }),
        (None, true) => return Err(Failure::new("`--build` needs `--peers-from`")),
        _ => Vec::new(),
    };
    let finds = FoundServers::look(args, &cases, &unbuilt)?;
    let certificate = Certificate::make()?;
    let ours = finds.servers.first().ok_or_else(|| Failure::new("ours is missing"))?;
    let environment = machine::describe(ours, &cores, Generator::versions());
    run_on(&cores.load);
    let mut session = Session {
        servers: &finds.servers,
        python: on_path("python3"),
        ground: ServerResources {
            cores: &cores,
            groups: &groups,
            stop: &stop,
            certificate: &certificate,
            peers: peers_from.as_deref(),
        },
        limit: args.limit,
        results: Vec::new(),
        left_out: finds.left_out.clone(),
    };
    let asked = RequestedPlan { duration: args.duration, rounds: args.rounds.into(), limit: args.limit };
    let names: Vec<_> = cases.iter().map(|case| case.name.clone()).collect();
    let plan = Plan::new(session.feasible(cases), asked);
    let start = Clock::system().now_exact();
    args.report.as_deref().map(remove_reports).transpose()?;
    session.run(&plan)?;
    session.results.sort_by_key(|result| names.iter().position(|name| *name == result.name));
    let elapsed = Clock::system().now_exact().saturating_sub(start);
    Ok(SuiteReport {
        format: SuiteReport::FORMAT.to_owned(),
        environment,
        settings: settings(args, &plan),
        servers: facts(&finds.servers, &session),
        cases: session.results,
        left_out: session.left_out,
        is_interrupted: stop.is_set(),
        elapsed_seconds: elapsed.as_secs_f64(),
    })
}

/// The cases that are asked for.
fn chosen(args: &SuiteArgs) -> Result<Vec<Case>, Failure> {
    let all = cases(&args.workloads());
    for text in &args.cases {
        if !all.iter().any(|case| case.name.contains(text)) {
            let names: Vec<_> = all.iter().map(|case| case.name.as_str()).collect();
            return Err(Failure::new(format!("no case is called `{}`", text.escape_debug()))
                .with_hint(format!("there are `{}`", names.join("`, `"))));
        }
    }
    let is_chosen = |case: &Case| args.cases.iter().any(|text| case.name.contains(text));
    Ok(all.into_iter().filter(|case| args.cases.is_empty() || is_chosen(case)).collect())
}

fn settings(args: &SuiteArgs, plan: &Plan) -> SuiteSettings {
    SuiteSettings {
        command: command_line(args),
        duration_seconds: plan.duration.as_secs_f64(),
        warm_up_seconds: Plan::WARM_UP.as_secs_f64(),
        rounds: plan.rounds as u64,
        limit_seconds: args.limit.as_secs_f64(),
    }
}

/// As it is typed to ask for the same again.
fn command_line(args: &SuiteArgs) -> String {
    let time = |time| humantime::format_duration(time).to_string().replace(' ', "");
    let mut words = vec![format!("thruway-suite {}", args.name.as_deref().unwrap_or_default())];
    words.push(format!("--limit {}", time(args.limit)));
    words.push(format!("--duration {}", time(args.duration)));
    words.push(format!("--rounds {}", args.rounds));
    for (option, list) in [("--cases", &args.cases), ("--peers", &args.peers)] {
        words.extend((!list.is_empty()).then(|| format!("{option} '{}'", list.join(","))));
    }
    // Where peers were built is another place on each machine.
    words.extend(args.peers_from.is_some().then(|| "--peers-from peers".to_owned()));
    words.join(" ")
}

/// Returns the servers that took part in a case, or failed to.
fn facts(servers: &[Found], session: &Session<'_>) -> Vec<ServerFacts> {
    let has_part = |found: &&Found| {
        let mut candidates = session.results.iter().flat_map(|case| &case.candidates);
        candidates.any(|candidate| candidate.name.split(' ').next() == Some(&*found.peer.name))
    };
    let fact = |found: &Found| {
        let program = found.program.file_name().unwrap_or_default().to_string_lossy();
        let setups = &found.peer.setups;
        let commands = setups.values().map(|setup| format!("{program} {}", setup.arguments.join(" ")));
        let configs: Vec<_> = setups.values().filter_map(|setup| setup.config.as_deref()).collect();
        ServerFacts {
            name: found.peer.name.clone(),
            version: found.version.clone(),
            about: found.peer.about.clone(),
            command: commands.collect::<Vec<_>>().join("; "),
            config: (!configs.is_empty()).then(|| configs.join("\n")),
        }
    };
    servers.iter().filter(has_part).map(fact).collect()
}

fn show(report: &SuiteReport, args: &SuiteArgs) -> Result<(), Failure> {
    if let Some(directory) = &args.report {
        terminal::write(&directory.join("report.md"), &report.to_markdown())?;
        terminal::write(&directory.join("report.html"), &(report.to_html() + "\n"))?;
        terminal::write(&directory.join(JSON), &(report.to_json() + "\n"))?;
    }
    terminal::print(&match args.output {
        Form::Text => report.to_text(),
        Form::Json => report.to_json(),
        Form::Csv => report.to_csv(),
        Form::Markdown => report.to_markdown(),
    })
}

fn read(path: &Path) -> Result<SuiteReport, Failure> {
    let failure = |error: String| {
        Failure::new(format!("`{}` cannot be used: {error}", path.display()))
            .with_hint("it is to be what `thruway-suite … --output json` has printed")
    };
    let text = fs::read_to_string(path).map_err(|error| failure(error.to_string()))?;
    SuiteReport::from_json(&text).map_err(failure)
}

/// Removes the reports of an earlier run, so that none of them is taken for that of this run.
fn remove_reports(directory: &Path) -> Result<(), Failure> {
    for name in ["report.md", "report.html", JSON] {
        let path = directory.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unwritable(&path, &error)),
            _ => {}
        }
    }
    Ok(())
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("`{}` cannot be written: {error}", path.display()))
}

const JSON: &str = "report.json";
