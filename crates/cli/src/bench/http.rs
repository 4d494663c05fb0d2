//! `thruway bench http`, and two commands with the options of other tools: `thruway bench wrk` and `thruway
//! bench ab`.

use std::process::ExitCode;
use std::time::Duration;

use thruway_bench::{Load, ProcessGroups, ProgressDisplay, Report, without_connection_option};

use super::args::{AbArgs, HttpArgs, HttpLoadArgs, LoadArgs, ReportArgs, ThresholdArgs, WrkArgs};
use super::output::failure;
use super::{load, output};
use crate::config::Failure;

/// Sends requests to a server and prints a report.
pub(super) fn run(args: &HttpArgs) -> Result<ExitCode, Failure> {
    if args.report.schema {
        output::print(&format!("{:#}", Report::schema().as_value()))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::check_thresholds(&args.report.thresholds.fail_if, args.load.load.stages.as_ref(), None)?;
    output::check(args.report.html.as_deref())?;
    let stop = load::stop_flag(&ProcessGroups::default())?;
    let load = Load { server: args.report.pid, ..load::build(&args.targets, &args.load, &stop)? };
    let report = measure(&args.targets.join(" "), &load, &ProgressDisplay::new(!args.load.load.is_not_live))?;
    output::show_report(report, &args.report)
}

/// Runs a load, shows its progress in `line`, and returns the report.
pub(super) fn measure(target: &str, load: &Load, line: &ProgressDisplay) -> Result<Report, Failure> {
    let outcome = load.run(&mut |progress| line.show(load, progress));
    Ok(Report::new(target, load, &outcome.map_err(|error| failure(&error, error.hint()))?))
}

/// Runs a load with the options of `wrk`.
pub(super) fn run_wrk(args: &WrkArgs) -> Result<ExitCode, Failure> {
    if args.script.is_some() {
        return Err(Failure::new("scripts are not supported").with_hint(
            "use `thruway bench http` with `--method`, `--content`, `-H`, `--pipeline`, or `@FILE` for different requests",
        ));
    }
    if u32::from(args.threads) > args.connections {
        let message = format!("{} threads cannot share {} connections", args.threads, args.connections);
        return Err(
            Failure::new(message).with_hint("each thread needs a connection: lower `-t` or raise `-c`")
        );
    }
    let (header, closes) = without_connection_option(&args.header);
    let load = LoadArgs {
        connections: args.connections,
        workers: args.threads,
        duration: args.duration,
        timeout: args.timeout,
        is_not_persistent: closes,
        header,
        ..LoadArgs::default()
    };
    run_preset(&args.url, HttpLoadArgs { load, ..HttpLoadArgs::default() }, &args.thresholds)
}

/// Runs a load with the options of `ab`, over HTTP/1.1. Without `-k`, each request opens a new connection.
pub(super) fn run_ab(args: &AbArgs) -> Result<ExitCode, Failure> {
    let (mut header, closes) = without_connection_option(&args.header);
    header.extend(args.content_type.iter().map(|value| format!("Content-Type: {value}")));
    if !args.cookie.is_empty() {
        header.push(format!("Cookie: {}", args.cookie.join("; ")));
    }
    let load = LoadArgs {
        connections: args.concurrency,
        requests: args.time_limit.is_none().then_some(args.requests),
        duration: Duration::from_secs(args.time_limit.unwrap_or(1)),
        timeout: Duration::from_secs(args.timeout),
        is_not_persistent: closes || !args.is_persistent,
        header,
        is_not_live: args.has_no_input,
        ..LoadArgs::default()
    };
    let content = args.content.as_ref().or(args.put.as_ref()).map(|file| format!("@{file}"));
    let load = HttpLoadArgs { load, method: method(args), content, ..HttpLoadArgs::default() };
    run_preset(&args.url, load, &args.thresholds)
}

fn method(args: &AbArgs) -> Option<String> {
    let implied = args.is_head.then_some("HEAD").or_else(|| args.put.is_some().then_some("PUT"));
    args.method.clone().or_else(|| implied.map(str::to_owned))
}

fn run_preset(url: &str, load: HttpLoadArgs, thresholds: &ThresholdArgs) -> Result<ExitCode, Failure> {
    let targets = vec![url.to_owned()];
    let report = ReportArgs { thresholds: thresholds.clone(), ..ReportArgs::default() };
    run(&HttpArgs { targets, load, report })
}
