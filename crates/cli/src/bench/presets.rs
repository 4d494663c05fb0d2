//! Loads that are asked for as of other tools: `thruway bench wrk` and `thruway bench ab` take what people have in their
//! fingers and scripts. Reports are ours.

use std::process::ExitCode;
use std::time::Duration;

use super::args::{AbArgs, Form, HttpArgs, LoadArgs, WrkArgs};
use super::http;
use crate::config::Failure;

/// As `wrk` would.
pub(super) fn run_wrk(args: &WrkArgs) -> Result<ExitCode, Failure> {
    http::run(&HttpArgs {
        targets: vec![args.url.clone()],
        load: LoadArgs {
            connections: args.connections,
            workers: args.threads,
            duration: args.duration,
            timeout: args.timeout,
            header: args.header.clone(),
            ..LoadArgs::default()
        },
        pid: None,
        output: Form::Text,
        html: None,
        schema: false,
    })
}

/// As `ab` would, with HTTP/1.1: without `-k`, a connection for each request.
pub(super) fn run_ab(args: &AbArgs) -> Result<ExitCode, Failure> {
    let mut header = args.header.clone();
    header.extend(args.content_type.iter().map(|value| format!("Content-Type: {value}")));
    http::run(&HttpArgs {
        targets: vec![args.url.clone()],
        load: LoadArgs {
            connections: args.concurrency,
            requests: args.time_limit.is_none().then_some(args.requests),
            duration: Duration::from_secs(args.time_limit.unwrap_or(1)),
            timeout: Duration::from_secs(args.timeout),
            is_not_persistent: !args.is_persistent,
            method: args.method.clone(),
            content: args.content.as_ref().map(|file| format!("@{file}")),
            header,
            ..LoadArgs::default()
        },
        pid: None,
        output: Form::Text,
        html: None,
        schema: false,
    })
}
