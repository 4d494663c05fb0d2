//! Measures MCP servers under load. By default, measures response times. With `--subscribers`, measures the
//! time until all subscribers have received a notification.

use std::process::ExitCode;
use std::sync::Arc;

use serde_json::json;
use thruway_bench::{
    ChildServer, Endpoint, Era, FanOut, Load, LoadTls, McpRequests, McpServerFacts, Origin, ProbeError,
    ProcessGroups, ProgressDisplay, Report, Revision, RunError, SessionUse, StopFlag, describe_operations,
    parse_url, probe_child, probe_http, reachable_address, resolve_origin,
};
use thruway_client::UpstreamAddr;

use super::args::McpArgs;
use crate::bench::args::LoadArgs;
use crate::bench::output::{failure, not_planned};
use crate::bench::{http, load, output};
use crate::config::{Failure, parse_headers};

/// Sends requests to an MCP server and prints a report.
pub(crate) fn run(args: &McpArgs) -> Result<ExitCode, Failure> {
    if args.report.schema {
        output::print(&format!("{:#}", Report::schema().as_value()))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::check_thresholds(&args.report.thresholds.fail_if, args.load.stages.as_ref(), None)?;
    output::check(args.report.html.as_deref())?;
    let groups = ProcessGroups::default();
    let stop = load::stop_flag(&groups)?;
    let report = match &args.target {
        Some(url) => load_endpoint(url, args, &stop)?,
        None => load_child(args, &groups, &stop)?,
    };
    output::show_report(report, &args.report)
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
        return fan_out(args, &facts, &endpoint, (addresses, tls), stop);
    }
    let sessions = sessions(args, &facts)?;
    let (requests, name) = prepare(url, args, &facts, sessions, Some(&endpoint))?;
    let load = options.load(Arc::new(requests), addresses, stop);
    let load = Load { server: args.report.pid, tls, ..load };
    http::measure(&name, &load, &ProgressDisplay::new(!args.load.is_not_live))
}

fn load_child(args: &McpArgs, groups: &ProcessGroups, stop: &StopFlag) -> Result<Report, Failure> {
    if args.session.is_some() {
        return Err(Failure::new("a child process has at most one session")
            .with_hint("remove `--session`, which applies only to servers over HTTP"));
    }
    args.load.options().check_duration().map_err(not_planned)?;
    if args.load.stages.as_ref().is_some_and(|stages| stages.connections_max().is_some()) {
        return Err(Failure::new(
            "a child process has one connection, so stages cannot change the connections",
        )
        .with_hint("use rates, such as `--stages 30s:100`"));
    }
    let target = args.command.join(" ");
    let not_started = |error| {
        Failure::new(format!("cannot load `{}`: {error}", target.escape_debug()))
            .with_hint("check the name of the command, and that it is in the `PATH`")
    };
    let child = ChildServer::start(&args.command).map_err(not_started)?;
    groups.add(child.id());
    let facts = probe_child(&child, &revisions(args), args.load.timeout);
    let facts = facts.map_err(|error| not_understood(&target, &error))?;
    let (requests, name) = prepare(&target, args, &facts, SessionUse::None, None)?;
    let load = args.load().options().load(Arc::new(requests), Vec::new(), stop);
    let load = Load { server: Some(child.id()), ..load };
    let line = ProgressDisplay::new(!args.load.is_not_live);
    let outcome = load.run_child(&child, &mut |progress| line.show(&load, progress));
    line.finish();
    let outcome = outcome.map_err(|error| match error {
        RunError::ServerMissing(_) => Failure::new(format!("`{target}` has exited")),
        error => failure(&error, error.hint()),
    })?;
    Ok(Report::new(name, &load, &outcome))
}

/// Returns the MCP revisions to try with the server, in the order of the attempts.
fn revisions(args: &McpArgs) -> Vec<Revision> {
    args.era.map_or_else(|| vec![Revision::LATEST, Revision::LATEST_LEGACY], |revision| vec![revision])
}

/// Returns the use of MCP sessions over HTTP.
fn sessions(args: &McpArgs, facts: &McpServerFacts) -> Result<SessionUse, Failure> {
    let sessions = match (facts.revision.era(), args.session) {
        (Era::Modern, Some(_)) => {
            return Err(Failure::new(format!("MCP revision {} has no sessions", facts.revision))
                .with_hint("remove `--session`, or pass `--era legacy`"));
        }
        (Era::Modern, None) => SessionUse::None,
        (Era::Legacy, session) => session.map_or(SessionUse::PerConnection, SessionUse::from),
    };
    if sessions != SessionUse::None && (args.load.pipeline > 1 || args.load.is_not_persistent) {
        return Err(Failure::new("a connection with a session sends one request at a time")
            .with_hint("remove `--pipeline` and `--no-keep-alive`, or pass `--session none`"));
    }
    Ok(sessions)
}

/// Returns the requests, and the title of the report.
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

/// Measures the time until all subscribers have received a notification from the server at `addresses`.
fn fan_out(
    args: &McpArgs,
    facts: &McpServerFacts,
    endpoint: &Endpoint,
    (addresses, tls): (Vec<UpstreamAddr>, Option<LoadTls>),
    stop: &StopFlag,
) -> Result<Report, Failure> {
    let (Some(subscribers), Some(uri), Some(url)) = (args.subscribers, &args.uri, &args.target) else {
        return Err(Failure::new("subscribers must be at least 1"));
    };
    if matches!(endpoint.url.origin, Origin::Unix(_)) {
        return Err(Failure::new("`--subscribers` does not support Unix sockets")
            .with_hint("pass a URL such as `http://HOST:PORT/PATH`"));
    }
    let publication = args.operations().call(facts);
    let publication = publication.map_err(|error| failure(&error, Some(error.hint())))?;
    let fan_out = FanOut {
        url: url.clone(),
        headers: endpoint.headers.clone(),
        revision: facts.revision,
        subscribers: subscribers as usize,
        uri: uri.clone(),
        tool: publication.params["name"].as_str().unwrap_or_default().to_owned(),
        arguments: publication.params.get("arguments").cloned().unwrap_or_else(|| json!({})),
    };
    // With MCP revisions up to 2025-11-25, each subscriber has one connection for requests and a second
    // connection for notifications.
    let connections = 2 * (subscribers + 1);
    let options = LoadArgs { connections, ..args.load() }.options();
    options.check().map_err(not_planned)?;
    let requests = McpRequests::new(facts.revision, SessionUse::None, &[publication], Some(endpoint));
    let requests = requests.map_err(Failure::new)?;
    let load = options.load(Arc::new(requests), addresses, stop);
    let load = Load { server: args.report.pid, tls, connections: subscribers as usize + 1, ..load };
    let line = ProgressDisplay::new(!args.load.is_not_live);
    let outcome = fan_out.run(&load, &mut |progress| line.show(&load, progress));
    line.finish();
    let name = format!(
        "{url} (MCP {}: {} notifies {subscribers} subscribers of {uri})",
        facts.revision, fan_out.tool
    );
    let outcome = outcome.map_err(|error| failure(&error, error.hint(&fan_out)))?;
    Ok(Report::new(name, &load, &outcome))
}

/// Converts the error of a probe into a failure with a hint. The probe runs before the load. It asks the
/// server for its MCP revision and its tools.
fn not_understood(target: &str, error: &ProbeError) -> Failure {
    failure(format!("cannot load `{}`: {error}", target.escape_debug()), Some(error.hint()))
}
