//! `thruway bench mcp`.

// what is asked for
mod args;
mod operations;
mod fan_out;

pub(crate) use args::McpArgs;

use std::process::ExitCode;
use std::sync::Arc;

use thruway_bench::{
    ChildServer, Endpoint, Era, Load, McpRequests, McpServerFacts, ProbeError, Report, Revision, RunError,
    SessionUse, StopFlag, probe_child, probe_http,
};

use super::groups::ProcessGroups;
use super::progress::ProgressLine;
use super::{http, interrupt, load, output, requests};
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
    let stop = interrupt::stop_flag(&groups)?;
    let report = match &args.target {
        Some(url) => load_endpoint(url, args, &stop)?,
        None => load_child(args, &groups, &stop)?,
    };
    http::show(&report, &args.report)
}

fn load_endpoint(url: &str, args: &McpArgs, stop: &StopFlag) -> Result<Report, Failure> {
    let load_args = args.load();
    load::check(&load_args)?;
    let endpoint = Endpoint {
        url: requests::parse_url(url)?,
        headers: parse_headers(&args.load.header)?,
        is_persistent: !args.load.is_not_persistent,
    };
    let tls = load::tls(&endpoint.url, "http/1.1", &load_args)?;
    load::check_tls(&load_args, tls.is_some())?;
    let addresses = load::reachable(&load::addresses(&endpoint.url.origin)?)?;
    let facts = probe_http(&endpoint, &addresses[0], tls.as_ref(), &revisions(args), args.load.timeout);
    let facts = facts.map_err(|error| not_understood(url, &error))?;
    if args.subscribers.is_some() {
        return fan_out::run(args, &facts, &endpoint, (addresses, tls), stop);
    }
    let sessions = sessions(args, &facts)?;
    let (requests, name) = prepare(url, args, &facts, sessions, Some(&endpoint))?;
    let load = load::assemble(Arc::new(requests), addresses, &load_args, stop);
    let load = Load { server: args.report.pid, tls, ..load };
    http::measure(&name, &load, &ProgressLine::new(""))
}

fn load_child(args: &McpArgs, groups: &ProcessGroups, stop: &StopFlag) -> Result<Report, Failure> {
    if args.session.is_some() {
        return Err(Failure::new("a child has one session, if its era has any")
            .with_hint("`--session` is for servers over HTTP"));
    }
    load::check_time(&args.load)?;
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
    let load = load::assemble(Arc::new(requests), Vec::new(), &args.load(), stop);
    let load = Load { server: Some(child.id()), ..load };
    let line = ProgressLine::new("");
    let outcome = load.run_child(&child, &mut |progress| line.show(&load, progress));
    line.finish();
    let outcome = outcome.map_err(|error| match error {
        RunError::ServerMissing(_) => Failure::new(format!("`{target}` has ended")),
        error => load::unreachable(&error),
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
    let operations = operations::resolve(args, facts)?;
    let requests = McpRequests::new(facts.revision, sessions, &operations, endpoint);
    let requests = requests.map_err(|error| {
        let failure = Failure::new(&error);
        error.hint().map_or(failure, |hint| Failure::new(&error).with_hint(hint))
    })?;
    let sessions = match sessions {
        SessionUse::None => "",
        SessionUse::PerConnection => ", a session per connection",
        SessionUse::PerCall => ", a session per call",
    };
    let what = operations::describe(&operations);
    Ok((requests, format!("{target} (MCP {}: {what}{sessions})", facts.revision)))
}

/// Why it is not known how to talk to a server, and what to do about it.
fn not_understood(target: &str, error: &ProbeError) -> Failure {
    let failure = Failure::new(format!("`{}` cannot be loaded: {error}", target.escape_debug()));
    failure.with_hint(match error {
        ProbeError::Status(401 | 403) => "give what it asks for with `-H 'Authorization: …'`",
        ProbeError::Status(_) | ProbeError::NoResponse | ProbeError::Malformed(_) => {
            "is that the MCP endpoint of the server? Mostly its path is `/mcp`"
        }
        ProbeError::Refused(..) | ProbeError::RevisionUnknown => {
            "ask for a revision that it speaks with `--era`"
        }
        ProbeError::Closed => "does the command speak MCP on its standard input and output?",
        ProbeError::TimedOut => "give it more `--timeout`, if it is slow",
        ProbeError::Request(_) => "a header field is `Name: value`",
        ProbeError::Connect(_, error) => load::unconnected(*error).unwrap_or("is the server still running?"),
        ProbeError::System(_) => "is the server still running?",
    })
}
