//! Loads that are asked for as of other tools: `thruway bench wrk` and `thruway bench ab` take what people have in their
//! fingers and scripts. Reports are ours.

use std::process::ExitCode;
use std::time::Duration;

use super::args::{AbArgs, HttpArgs, HttpLoadArgs, LoadArgs, ReportArgs, WrkArgs};
use super::http;
use crate::config::Failure;

/// As `wrk` would.
pub(super) fn run_wrk(args: &WrkArgs) -> Result<ExitCode, Failure> {
    let load = LoadArgs {
        connections: args.connections,
        workers: args.threads,
        duration: args.duration,
        timeout: args.timeout,
        header: args.header.clone(),
        ..LoadArgs::default()
    };
    run(&args.url, HttpLoadArgs { load, ..HttpLoadArgs::default() })
}

/// As `ab` would, with HTTP/1.1: without `-k`, a connection for each request.
pub(super) fn run_ab(args: &AbArgs) -> Result<ExitCode, Failure> {
    let mut header = args.header.clone();
    header.extend(args.content_type.iter().map(|value| format!("Content-Type: {value}")));
    let load = LoadArgs {
        connections: args.concurrency,
        requests: args.time_limit.is_none().then_some(args.requests),
        duration: Duration::from_secs(args.time_limit.unwrap_or(1)),
        timeout: Duration::from_secs(args.timeout),
        is_not_persistent: !args.is_persistent,
        header,
        ..LoadArgs::default()
    };
    let content = args.content.as_ref().map(|file| format!("@{file}"));
    run(&args.url, HttpLoadArgs { load, method: args.method.clone(), content, ..HttpLoadArgs::default() })
}

fn run(url: &str, load: HttpLoadArgs) -> Result<ExitCode, Failure> {
    let targets = vec![url.to_owned()];
    http::run(&HttpArgs { targets, load, report: ReportArgs::default() })
}
