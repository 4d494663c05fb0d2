//! The candidates of a case: servers, child processes on pipes, and load generators on a Thruway server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde_json::json;
use thruway_bench::{
    ChildServer, ConnectionOptions, Endpoint, Era, Expected, HttpRequest, HttpRequests, Limit, Load,
    LoadOptions, LoadUrl, McpRequests, McpServerFacts, Pace, ProcessGroups, Report, Requests, Revision,
    SessionUse, StopFlag, TlsOptions, probe_child, probe_http, usage,
};
use thruway_client::UpstreamAddr;
use thruway_net::Clock;

use crate::calls;
use crate::case::{
    Case, ComparisonKind, LoadCondition, MessageEra, Operation, Request, Role, Security, Workload,
};
use crate::commands;
use crate::cores::run_on;
use crate::counter;
use crate::figures::{Figures, Metric, as_f64};
use crate::found::Found;
use crate::generators::Generator;
use crate::hand_written::HandWritten;
use crate::idle_sessions;
use crate::process::cpu_of_program;
use crate::reloads::Reloads;
use crate::results::CandidateResult;
use crate::server::{Server, ServerResources};
use crate::soak;

/// A server or a load generator to measure, with its name.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) what: CandidateKind,
}

/// A server or a load generator to measure.
#[derive(Clone)]
pub(crate) enum CandidateKind {
    /// This server in this role.
    Server(Found, Role),
    /// The shared Thruway server, loaded by this load generator, or by ours if `None`.
    Ours(Option<Generator>),
    /// Thruway on pipes, loaded by the hand-written loop.
    HandWritten(Found),
    /// This gateway, with repeated reloads of its config.
    Reloaded(Found),
}

/// The settings of a case, which are the same for all candidates.
#[derive(Clone, Copy)]
pub(crate) struct Cell<'a> {
    pub(crate) case: &'a Case,
    pub(crate) duration: Duration,
    pub(crate) warm_up: Duration,
    /// The load generator for the servers; `None` is ours.
    pub(crate) load_with: Option<Generator>,
    pub(crate) resources: ServerResources<'a>,
    /// The backend of the gateways.
    pub(crate) backend: Option<&'a Server>,
    /// The Thruway server that all load generators use.
    pub(crate) shared: Option<&'a Server>,
    /// The program of the MCP server behind bridges.
    pub(crate) behind_bridges: Option<&'a Path>,
}

/// A candidate of a case.
pub(crate) struct Contender {
    entry: Entry,
    started: Option<StartedCandidate>,
    result: CandidateResult,
}

/// A started candidate.
enum StartedCandidate {
    /// A server and its loads. Only a soak has more than one load.
    Server(Box<Server>, Vec<Load>),
    Reloaded(Box<Server>, Load),
    Shared(Load),
    Child(Box<Piped>, Load),
    Other(Generator),
    HandWritten(Box<HandWritten>),
    Client(Box<Server>, Found),
    Command(Found),
}

/// A server on pipes. Its process group is registered in `groups` until it is dropped.
struct Piped {
    child: ChildServer,
    groups: ProcessGroups,
}

impl Drop for Piped {
    fn drop(&mut self) {
        self.groups.forget(self.child.id());
    }
}

impl Contender {
    /// Starts a candidate. If the start fails, the result contains the reason.
    pub(crate) fn start(entry: Entry, cell: Cell<'_>) -> Self {
        let result = CandidateResult { name: entry.name.clone(), ..CandidateResult::default() };
        let mut contender = Self { entry, started: None, result };
        contender.prepare(cell);
        contender
    }

    /// Returns the result.
    pub(crate) fn into_result(self) -> CandidateResult {
        self.result
    }

    /// Measures one round. Does nothing after a failure.
    pub(crate) fn measure(&mut self, cell: Cell<'_>) {
        if cell.case.restarts_servers() && self.started.is_some() && !self.result.rounds.is_empty() {
            self.started = None;
            self.prepare(cell);
        }
        let Some(started) = &mut self.started else { return };
        let measured = measure_and_check_count(started, cell);
        let death = started.death();
        // If the server has ended, this round has no figures.
        match death.map_or(measured, Err) {
            _ if cell.resources.runner.stop.is_set() => {}
            Ok(figures) => self.result.rounds.push(figures),
            Err(error) => self.fail(&error),
        }
    }

    fn prepare(&mut self, cell: Cell<'_>) {
        match StartedCandidate::start(&self.entry.what, cell) {
            Ok(started) => {
                let wanted = u64::from(cell.case.connections);
                self.result.connections = started.connections().filter(|given| *given < wanted);
                self.started = Some(started);
            }
            // If a signal interrupted the start, the candidate has not failed.
            Err(_) if cell.resources.runner.stop.is_set() => {}
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &anyhow::Error) {
        self.started = None;
        self.result.failure = Some(format!("{error:#}"));
    }
}

/// Measures a candidate. If the server counts requests, compares its count with the count of the load
/// generator.
fn measure_and_check_count(started: &mut StartedCandidate, cell: Cell<'_>) -> anyhow::Result<Figures> {
    let Some(server) = cell.shared.filter(|_| cell.case.is_counted()) else { return started.measure(cell) };
    let before = counter::requests(server.admin)?;
    let figures = started.measure(cell)?;
    let answered = counter::requests(server.admin)?.saturating_sub(before);
    let open_max = u64::from(cell.case.connections) * u64::from(cell.case.pipeline);
    counter::check(figures.answered, answered, open_max)?;
    Ok(figures)
}

impl StartedCandidate {
    fn start(what: &CandidateKind, cell: Cell<'_>) -> anyhow::Result<Self> {
        let resources = cell.resources;
        match what {
            CandidateKind::HandWritten(found) => {
                Ok(Self::HandWritten(HandWritten::start(found, resources)?.into()))
            }
            CandidateKind::Server(found, Role::Pipes) if found.peer.reads_no_messages => {
                Ok(Self::HandWritten(HandWritten::start(found, resources)?.into()))
            }
            CandidateKind::Server(found, Role::Pipes) => child(found, cell),
            CandidateKind::Server(found, Role::Client) if !found.peer.reads_no_messages => {
                Ok(Self::Client(Server::start(found, Role::Client, None, resources)?.into(), found.clone()))
            }
            CandidateKind::Server(found, Role::Command) => Ok(Self::Command(found.clone())),
            CandidateKind::Server(found, role) => {
                let server =
                    Server::start(found, *role, cell.backend.map(|backend| backend.address), resources)?;
                let loads = loads(cell, &server, found).map_err(|error| server.with_output(error))?;
                Ok(Self::Server(server.into(), loads))
            }
            CandidateKind::Reloaded(found) => {
                let backend = cell.backend.map(|backend| backend.address);
                let server = Server::start(found, Role::Gateway, backend, resources)?;
                let load = http_load(cell, &server, Some(found))?;
                Ok(Self::Reloaded(server.into(), load))
            }
            CandidateKind::Ours(Some(generator)) => Ok(Self::Other(*generator)),
            CandidateKind::Ours(None) => {
                Ok(Self::Shared(http_load(cell, cell.shared.context(NO_SERVER)?, None)?))
            }
        }
    }

    fn measure(&mut self, cell: Cell<'_>) -> anyhow::Result<Figures> {
        let (case, runner) = (cell.case, cell.resources.runner);
        match self {
            Self::Server(server, loads) if case.workload == Workload::McpSoak => {
                let requests = case.requests.context(NO_REQUESTS)?;
                soak::run(server.id(), loads, requests, cell.duration, &|load| run(load, None, cell))
            }
            Self::Server(_, loads) if case.between == ComparisonKind::Bridges => bridged(&loads[0], cell),
            Self::Server(server, _) if case.circumstance == LoadCondition::IdleSessions => {
                idle_sessions::measure(server, case.requests.context(NO_REQUESTS)?, runner.stop)
            }
            Self::Server(server, loads) => {
                if let Some(generator) = cell.load_with {
                    return generator.load(case, cell.duration, server.address, server.id(), runner);
                }
                // Reads the memory before the connections open.
                let before = usage(server.id()).filter(|_| case.holds_connections());
                let report = run(&loads[0], None, cell)?;
                Ok(Figures::of(&report, before.map(|before| before.resident_bytes)))
            }
            Self::Reloaded(server, load) => {
                let reloads = Reloads::begin(server.id(), server.config());
                let report = run(load, None, cell);
                match reloads.end() {
                    0 => bail!("the config was never reloaded"),
                    _ => Ok(Figures::of(&report?, None)),
                }
            }
            Self::Shared(load) => Ok(Figures::of(&run(load, None, cell)?, None)),
            Self::Child(piped, load) => Ok(Figures::of(&run(load, Some(&piped.child), cell)?, None)),
            Self::Client(server, client) => {
                calls::call(client, server, case.connections, cell.duration, runner)
            }
            Self::Command(found) => {
                let runs = case.requests.context(NO_REQUESTS)?;
                commands::repeat(found, cell.backend.context(NO_SERVER)?, runs, runner)
            }
            Self::HandWritten(started) => started.load(case, cell.warm_up, cell.duration, runner),
            Self::Other(generator) => {
                let server = cell.shared.context(NO_SERVER)?;
                generator.load(case, cell.duration, server.address, server.id(), runner)
            }
        }
    }

    /// Returns the number of connections to a server.
    fn connections(&self) -> Option<u64> {
        match self {
            Self::Server(_, loads) => Some(loads[0].connections as u64),
            _ => None,
        }
    }

    /// Returns an error with the exit status, if the candidate has ended.
    fn death(&mut self) -> Option<anyhow::Error> {
        let status = match self {
            Self::Server(server, _) | Self::Reloaded(server, _) | Self::Client(server, _) => {
                return server.death();
            }
            Self::Child(piped, _) => piped.child.status(),
            Self::HandWritten(started) => started.status(),
            Self::Shared(_) | Self::Other(_) | Self::Command(_) => None,
        };
        status.map(|status| anyhow!("the program ended with {status}"))
    }
}

/// Runs a load. Stops the load when the suite ends, or if the load takes far too long.
fn run(load: &Load, child: Option<&ChildServer>, cell: Cell<'_>) -> anyhow::Result<Report> {
    let clock = Clock::system();
    let about = Duration::from_millis(cell.case.about_ms).max(cell.duration);
    let end = clock.now_exact() + cell.warm_up + about * 3 + WAIT_LIMIT;
    let load = Load { stop: StopFlag::default(), ..load.clone() };
    let mut watch = |_: &_| {
        if cell.resources.runner.stop.is_set() || clock.now_exact() > end {
            load.stop.stop();
        }
    };
    let outcome = match child {
        Some(child) => load.run_child(child, &mut watch),
        None => load.run(&mut watch),
    };
    Ok(Report::new("", &load, &outcome?))
}

/// Runs a load on a bridge. Adds to the figures the CPU time of the bridge alone, without the servers behind
/// the bridge.
fn bridged(load: &Load, cell: Cell<'_>) -> anyhow::Result<Figures> {
    run(&Load { limit: Limit::Duration(cell.warm_up), ..load.clone() }, None, cell)?;
    let program = cell.behind_bridges.context(NO_SERVER)?;
    let before = cpu_of_program(program);
    let figures = Figures::of(&run(load, None, cell)?, None);
    let behind = cpu_of_program(program).saturating_sub(before);
    let behind = behind.as_secs_f64() * 1e6 / as_f64(figures.answered.max(1));
    let alone = Metric::ServerCpu.of(&figures).map(|cpu| (cpu - behind).max(0.0));
    Ok(figures.with(Metric::ProgramCpu, alone))
}

/// Returns the loads of a case on a server. A soak has several loads with different messages and eras, and
/// other cases have one load.
fn loads(cell: Cell<'_>, server: &Server, found: &Found) -> anyhow::Result<Vec<Load>> {
    if cell.case.workload != Workload::McpSoak {
        return Ok(vec![http_load(cell, server, Some(found))?]);
    }
    let kinds = [
        (MessageEra::Modern, Operation::Echo),
        (MessageEra::Modern, Operation::Tools),
        (MessageEra::Legacy, Operation::Echo),
        (MessageEra::Legacy, Operation::Ping),
    ];
    let load = |(era, operation)| {
        let case = Case { era: Some(era), request: Request::Mcp(operation), ..cell.case.clone() };
        http_load(Cell { case: &case, ..cell }, server, Some(found))
    };
    kinds.into_iter().map(load).collect()
}

fn http_load(cell: Cell<'_>, server: &Server, found: Option<&Found>) -> anyhow::Result<Load> {
    let case = cell.case;
    let address = UpstreamAddr::from(server.address);
    let scheme = if case.security == Security::None { "http" } else { "https" };
    let url = |target: &str| LoadUrl::parse(&format!("{scheme}://{}{target}", server.address));
    let get = |target: &str, bytes| -> anyhow::Result<HttpRequests> {
        let expected = Expected { status: Some(200), content_bytes: Some(bytes), ..Expected::default() };
        let is_persistent = case.is_persistent;
        let request = HttpRequest { is_persistent, expected, ..HttpRequest::get(url(target)?) };
        let requests = HttpRequests::new(&[request])?;
        Ok(if case.is_http2 { requests.for_http2()? } else { requests })
    };
    let requests: Arc<dyn Requests> = match &case.request {
        // In client cases, the ceiling does not read MCP messages, so its load has plain requests.
        _ if case.between == ComparisonKind::Clients => Arc::new(get("/plaintext", 13)?),
        Request::Get(target, bytes) => Arc::new(get(target, *bytes)?),
        Request::Mcp(operation) if found.is_some_and(|found| found.peer.reads_no_messages) => {
            let request = unread_message(*operation, case.era, url("/mcp")?);
            Arc::new(HttpRequests::new(&[request])?)
        }
        Request::Mcp(operation) => {
            let is_persistent = case.is_persistent;
            let headers = if case.between == ComparisonKind::Federations { vec![key()] } else { Vec::new() };
            let endpoint = Endpoint { url: url("/mcp")?, headers, is_persistent };
            let facts = probe_http(&endpoint, &address, None, &revisions(case), PROBE_TIMEOUT)?;
            Arc::new(messages(*operation, &facts, Some(&endpoint), case)?)
        }
    };
    let options = load_options(cell);
    let tls = options.tls(&url("/")?, if case.is_http2 { "h2" } else { "http/1.1" })?;
    let mut load = options.load(requests, vec![address], cell.resources.runner.stop);
    load.server = Some(server.id());
    load.tls = tls;
    load.connection_options = ConnectionOptions { is_http2: case.is_http2, ..load.connection_options };
    load.pace = case.rate.map_or(load.pace, |rate| Pace::Constant { rate });
    if let Some(fewer) = found.and_then(|found| found.peer.connections_instead_of(case.connections)) {
        load.connections = fewer as usize;
    }
    Ok(load)
}

/// Returns the header with the API key of the load, which some configs of our MCP endpoint require.
fn key() -> (String, String) {
    ("X-Api-Key".to_owned(), "benchmark".to_owned())
}

fn child(found: &Found, cell: Cell<'_>) -> anyhow::Result<StartedCandidate> {
    let Request::Mcp(operation) = cell.case.request else { bail!("only MCP cases can use pipes") };
    let setup = found.peer.setup(Role::Pipes).context("the peer does not support this role")?;
    let mut command = vec![found.program.display().to_string()];
    command.extend(setup.arguments.iter().map(|argument| cell.resources.with_folders(argument)));
    run_on(&cell.resources.cores.server);
    let child = ChildServer::start(&command);
    run_on(&cell.resources.cores.load);
    let piped = Piped { child: child?, groups: cell.resources.runner.groups.clone() };
    piped.groups.add(piped.child.id());
    let facts = probe_child(&piped.child, &revisions(cell.case), PROBE_TIMEOUT)?;
    let requests = Arc::new(messages(operation, &facts, None, cell.case)?);
    let load = load_options(cell).load(requests, Vec::new(), cell.resources.runner.stop);
    let load = Load { server: Some(piped.child.id()), ..load };
    Ok(StartedCandidate::Child(Box::new(piped), load))
}

fn messages(
    operation: Operation,
    facts: &McpServerFacts,
    endpoint: Option<&Endpoint>,
    case: &Case,
) -> anyhow::Result<McpRequests> {
    // MCP sessions over HTTP need keep-alive. MCP over a pipe needs no session.
    let is_possible = facts.revision.era() == Era::Legacy && endpoint.is_some() && case.is_persistent;
    // The servers built with SDKs run without sessions.
    let has_sessions = is_possible && !matches!(case.workload, Workload::Mcp | Workload::McpSoak);
    let sessions = if has_sessions { SessionUse::PerConnection } else { SessionUse::None };
    Ok(McpRequests::new(facts.revision, sessions, &[operation.on(facts)], endpoint)?)
}

/// Returns a request with an MCP message, for servers that do not read the message.
fn unread_message(operation: Operation, era: Option<MessageEra>, url: LoadUrl) -> HttpRequest {
    let revision = era.unwrap_or(MessageEra::Modern).revision();
    let mut operation = operation.on(&McpServerFacts { revision, tools: Vec::new() });
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut headers = vec![
        field("Content-Type", "application/json"),
        field("Accept", "application/json, text/event-stream"),
        field("MCP-Protocol-Version", revision.as_str()),
    ];
    if revision.era() == Era::Modern {
        headers.push(field("Mcp-Method", &operation.method));
        headers.extend(operation.params["name"].as_str().map(|name| field("Mcp-Name", name)));
        operation.params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": revision.as_str(),
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1.0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    }
    let (method, params) = (operation.method, operation.params);
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let expected = Expected { status: Some(200), ..Expected::default() };
    let content = message.to_string().into_bytes();
    HttpRequest { method: "POST".to_owned(), headers, content, expected, ..HttpRequest::get(url) }
}

/// Returns the MCP revisions to offer to a server, newest first.
fn revisions(case: &Case) -> Vec<Revision> {
    let eras = case.era.map_or_else(|| vec![MessageEra::Modern, MessageEra::Legacy], |era| vec![era]);
    eras.into_iter().map(MessageEra::revision).collect()
}

fn load_options(cell: Cell<'_>) -> LoadOptions {
    let case = cell.case;
    // Not all peers support post-quantum key exchange.
    let (verify, post_quantum, resume) = (false, false, case.security != Security::Full);
    LoadOptions {
        connections: case.connections,
        limit: case.requests.map_or(Limit::Duration(cell.duration), Limit::Requests),
        warm_up: cell.warm_up,
        pipeline: case.pipeline,
        is_persistent: case.is_persistent,
        tls: TlsOptions { verify, post_quantum, resume, ..TlsOptions::default() },
        ..LoadOptions::default()
    }
}

const NO_SERVER: &str = "the case has no server";
const NO_REQUESTS: &str = "the case has no number of requests";

const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The suite stops a load after three times its duration plus this time.
const WAIT_LIMIT: Duration = Duration::from_secs(2);
