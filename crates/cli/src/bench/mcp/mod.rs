//! `thruway bench mcp`.

// what is asked for
mod args;
mod fan_out;

pub(crate) use args::McpArgs;

use std::process::ExitCode;
use std::sync::Arc;

use thruway_bench::{
    ChildServer, Endpoint, Era, Load, McpRequests, McpServerFacts, ProbeError, ProcessGroups, Report,
    Revision, RunError, SessionUse, StopFlag, describe_operations, parse_url, probe_child, probe_http,
    reachable_address, resolve_origin,
};

use super::output::{failure, not_planned};
use super::progress::ProgressLine;
use super::{http, output, progress};
use crate::config::Failure;
use crate::headers::parse_headers;

/// Loads a server of MCP and reports.
pub(super) fn run(args: &McpArgs) -> Result<ExitCode, Failure> {
    if args.report.schema {
        output::print(&format!("{:#}", Report::schema().as_value()))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::check(args.report.html.as_deref())?;
    let groups = ProcessGroups::default();
    let stop = progress::stop_flag(&groups)?;
    let report = match &args.target {
        Some(url) => load_endpoint(url, args, &stop)?,
        None => load_child(args, &groups, &stop)?,
    };
    http::show(&report, &args.report)
}

fn load_endpoint(url: &str, args: &McpArgs, stop: &StopFlag) -> Result<Report, Failure> {
    let options = args.load().options();
    options.check().map_err(not_planned)?;
    let endpoint = Endpoint {
        url: parse_url(url).map_err(not_planned)?,
        headers: parse_headers(&args.load.header)?,
        is_persistent: !args.load.is_not_persistent,
    };
    let tls = options.tls(&endpoint.url, "http/1.1").map_err(not_planned)?;
    options.check_tls(tls.is_some()).map_err(not_planned)?;
    let addresses = resolve_origin(&endpoint.url.origin).map_err(not_planned)?;
    let addresses = vec![reachable_address(&addresses).map_err(not_planned)?];
    let facts = probe_http(&endpoint, &addresses[0], tls.as_ref(), &revisions(args), args.load.timeout);
    let facts = facts.map_err(|error| not_understood(url, &error))?;
    if args.subscribers.is_some() {
        return fan_out::run(args, &facts, &endpoint, (addresses, tls), stop);
    }
    let sessions = sessions(args, &facts)?;
    let (requests, name) = prepare(url, args, &facts, sessions, Some(&endpoint))?;
    let load = options.load(Arc::new(requests), addresses, stop);
    let load = Load { server: args.report.pid, tls, ..load };
    http::measure(&name, &load, &ProgressLine::new(""))
}

fn load_child(args: &McpArgs, groups: &ProcessGroups, stop: &StopFlag) -> Result<Report, Failure> {
    if args.session.is_some() {
        return Err(Failure::new("a child has one session, if its era has any")
            .with_hint("`--session` is for servers over HTTP"));
    }
    args.load.options().check_duration().map_err(not_planned)?;
    let target = args.command.join(" ");
    let not_started = |error| {
        Failure::new(format!("`{}` cannot be loaded: {error}", target.escape_debug()))
            .with_hint("is the command spelled rightly, and is it in the `PATH`?")
    };
    let child = ChildServer::start(&args.command).map_err(not_started)?;
    groups.add(child.id());
    let facts = probe_child(&child, &revisions(args), args.load.timeout);
    let facts = facts.map_err(|error| not_understood(&target, &error))?;
    let (requests, name) = prepare(&target, args, &facts, SessionUse::None, None)?;
    let load = args.load().options().load(Arc::new(requests), Vec::new(), stop);
    let load = Load { server: Some(child.id()), ..load };
    let line = ProgressLine::new("");
    let outcome = load.run_child(&child, &mut |progress| line.show(&load, progress));
    line.finish();
    let outcome = outcome.map_err(|error| match error {
        RunError::ServerMissing(_) => Failure::new(format!("`{target}` has ended")),
        error => failure(&error, error.hint()),
    })?;
    Ok(Report::new(name, &load, &outcome))
}

/// The revisions to try, in their order.
fn revisions(args: &McpArgs) -> Vec<Revision> {
    args.era.map_or_else(|| vec![Revision::LATEST, Revision::LATEST_LEGACY], |revision| vec![revision])
}

/// How sessions are used over HTTP.
fn sessions(args: &McpArgs, facts: &McpServerFacts) -> Result<SessionUse, Failure> {
    let sessions = match (facts.revision.era(), args.session) {
        (Era::Modern, Some(_)) => {
            return Err(Failure::new(format!("revision {} has no sessions", facts.revision))
                .with_hint("leave `--session` out, or ask for `--era legacy`"));
        }
        (Era::Modern, None) => SessionUse::None,
        (Era::Legacy, session) => session.map_or(SessionUse::PerConnection, SessionUse::from),
    };
    if sessions != SessionUse::None && (args.load.pipeline > 1 || args.load.is_not_persistent) {
        return Err(Failure::new("requests with a session come one after the other on a connection")
            .with_hint("leave `--pipeline` and `--no-keep-alive` out, or ask for `--session none`"));
    }
    Ok(sessions)
}

/// The requests, and what the load is called in the report.
fn prepare(
    target: &str,
    args: &McpArgs,
    facts: &McpServerFacts,
    sessions: SessionUse,
    endpoint: Option<&Endpoint>,
) -> Result<(McpRequests, String), Failure> {
    let operations = args.operations().resolve(facts);
    let operations = operations.map_err(|error| failure(&error, Some(error.hint())))?;
    let requests = McpRequests::new(facts.revision, sessions, &operations, endpoint);
    let requests = requests.map_err(|error| failure(&error, error.hint()))?;
    let sessions = match sessions {
        SessionUse::None => "",
        SessionUse::PerConnection => ", a session per connection",
        SessionUse::PerCall => ", a session per call",
    };
    let what = describe_operations(&operations);
    Ok((requests, format!("{target} (MCP {}: {what}{sessions})", facts.revision)))
}

/// Why it is not known how to talk to a server, and what to do about it.
fn not_understood(target: &str, error: &ProbeError) -> Failure {
    failure(format!("`{}` cannot be loaded: {error}", target.escape_debug()), Some(error.hint()))
}
