//! A candidate of a case: a server, a child on pipes, or another load generator on a server of ours.

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
use crate::case::{Case, ComparisonKind, MessageEra, Operation, Request, Role, Security, Workload};
use crate::commands;
use crate::cores::run_on;
use crate::counter;
use crate::figures::{Figures, Metric, as_f64};
use crate::found::Found;
use crate::generators::Generator;
use crate::hand_written::HandWritten;
use crate::process::cpu_of_program;
use crate::reloads::Reloads;
use crate::results::CandidateResult;
use crate::server::{Server, ServerResources};
use crate::soak;

/// A server or a load generator to measure, with its name.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) what: Measured,
}

/// A server or a load generator to measure.
#[derive(Clone)]
pub(crate) enum Measured {
    /// This server, being that.
    Server(Found, Role),
    /// The server of ours that is shared, by another load generator, or by ours if there is none.
    Ours(Option<Generator>),
    /// Ours on pipes, by a loop written by hand.
    HandWritten(Found),
    /// This gateway, which reloads its config all the time.
    Reloaded(Found),
}

/// The settings of all cells of a case.
#[derive(Clone, Copy)]
pub(crate) struct Cell<'a> {
    pub(crate) case: &'a Case,
    pub(crate) duration: Duration,
    pub(crate) warm_up: Duration,
    pub(crate) ground: ServerResources<'a>,
    /// The backend of gateways.
    pub(crate) backend: Option<&'a Server>,
    /// The server of ours that all load generators load.
    pub(crate) shared: Option<&'a Server>,
    /// The program of the server behind bridges.
    pub(crate) behind_bridges: Option<&'a Path>,
}

/// A candidate of a case.
pub(crate) struct Contender {
    entry: Entry,
    subject: Option<Subject>,
    result: CandidateResult,
}

/// A started candidate.
enum Subject {
    /// A server with its loads: one, but for a soak.
    Server(Box<Server>, Vec<Load>),
    Reloaded(Box<Server>, Load),
    Shared(Load),
    Child(Box<Piped>, Load),
    Other(Generator),
    HandWritten(Box<HandWritten>),
    Client(Box<Server>, Found),
    Command(Found),
}

/// A server on pipes, known among the groups for as long as it exists.
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
    /// Starts a candidate. The reason of a failed start is part of the result.
    pub(crate) fn start(entry: Entry, cell: Cell<'_>) -> Self {
        let result = CandidateResult { name: entry.name.clone(), ..CandidateResult::default() };
        let mut contender = Self { entry, subject: None, result };
        contender.prepare(cell);
        contender
    }

    /// Returns the result.
    pub(crate) fn into_result(self) -> CandidateResult {
        self.result
    }

    /// Loads it once. One that has failed is not loaded again.
    pub(crate) fn measure(&mut self, cell: Cell<'_>) {
        // Memory that earlier connections leave in a server would hide the growth in the next round.
        let workload = cell.case.workload;
        let is_lasting =
            matches!(workload, Workload::Connections | Workload::McpSoak) || cell.case.is_crowded();
        if is_lasting && self.subject.is_some() && !self.result.rounds.is_empty() {
            self.subject = None;
            self.prepare(cell);
        }
        let Some(subject) = &mut self.subject else { return };
        let measured = measure_counted(subject, cell);
        let death = subject.death();
        // A server that has died has no figures for this round.
        match death.map_or(measured, Err) {
            _ if cell.ground.runner.stop.is_set() => {}
            Ok(figures) => self.result.rounds.push(figures),
            Err(error) => self.fail(&error),
        }
    }

    fn prepare(&mut self, cell: Cell<'_>) {
        match Subject::start(&self.entry.what, cell) {
            Ok(subject) => {
                let wanted = u64::from(cell.case.connections);
                self.result.connections = subject.connections().filter(|given| *given < wanted);
                self.subject = Some(subject);
            }
            // An interrupted start is no failure.
            Err(_) if cell.ground.runner.stop.is_set() => {}
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &anyhow::Error) {
        self.subject = None;
        self.result.failure = Some(format!("{error:#}"));
    }
}

/// Loads a subject, and compares the count of requests with that of the server where it has one.
fn measure_counted(subject: &mut Subject, cell: Cell<'_>) -> anyhow::Result<Figures> {
    let Some(server) = cell.shared.filter(|_| cell.case.is_counted()) else { return subject.measure(cell) };
    let before = counter::requests(server.admin)?;
    let figures = subject.measure(cell)?;
    let answered = counter::requests(server.admin)?.saturating_sub(before);
    let open_max = u64::from(cell.case.connections) * u64::from(cell.case.pipeline);
    counter::check(figures.answered, answered, open_max)?;
    Ok(figures)
}

impl Subject {
    fn start(what: &Measured, cell: Cell<'_>) -> anyhow::Result<Self> {
        let ground = cell.ground;
        match what {
            Measured::HandWritten(found) => Ok(Self::HandWritten(HandWritten::start(found, ground)?.into())),
            Measured::Server(found, Role::Pipes) if found.peer.reads_no_messages => {
                Ok(Self::HandWritten(HandWritten::start(found, ground)?.into()))
            }
            Measured::Server(found, Role::Pipes) => child(found, cell),
            Measured::Server(found, Role::Client) if !found.peer.reads_no_messages => {
                Ok(Self::Client(Server::start(found, Role::Client, None, ground)?.into(), found.clone()))
            }
            Measured::Server(found, Role::Command) => Ok(Self::Command(found.clone())),
            Measured::Server(found, role) => {
                let server =
                    Server::start(found, *role, cell.backend.map(|backend| backend.address), ground)?;
                let loads = loads(cell, &server, found).map_err(|error| server.with_output(error))?;
                Ok(Self::Server(server.into(), loads))
            }
            Measured::Reloaded(found) => {
                let backend = cell.backend.map(|backend| backend.address);
                let server = Server::start(found, Role::Gateway, backend, ground)?;
                let load = http_load(cell, &server, Some(found))?;
                Ok(Self::Reloaded(server.into(), load))
            }
            Measured::Ours(Some(generator)) => Ok(Self::Other(*generator)),
            Measured::Ours(None) => Ok(Self::Shared(http_load(cell, cell.shared.context(NO_SERVER)?, None)?)),
        }
    }

    fn measure(&mut self, cell: Cell<'_>) -> anyhow::Result<Figures> {
        let (case, runner) = (cell.case, cell.ground.runner);
        match self {
            Self::Server(server, loads) if case.workload == Workload::McpSoak => {
                let requests = case.requests.context(NO_REQUESTS)?;
                soak::run(server.id(), loads, requests, cell.duration, &|load| run(load, None, cell))
            }
            Self::Server(_, loads) if case.between == ComparisonKind::Bridges => bridged(&loads[0], cell),
            Self::Server(server, loads) => {
                // The growth counts from the time before the connections.
                let before = usage(server.id()).filter(|_| case.holds_connections());
                let report = run(&loads[0], None, cell)?;
                Ok(Figures::of(&report, before.map(|before| before.resident_bytes)))
            }
            Self::Reloaded(server, load) => {
                let reloads = Reloads::begin(server.id(), server.config());
                let report = run(load, None, cell);
                match reloads.end() {
                    0 => bail!("it was not told to read its config again"),
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
                generator.load(case, cell.duration, cell.shared.context(NO_SERVER)?, runner)
            }
        }
    }

    /// Returns the number of connections that a server gets.
    fn connections(&self) -> Option<u64> {
        match self {
            Self::Server(_, loads) => Some(loads[0].connections as u64),
            _ => None,
        }
    }

    /// Returns the reason for the end of the candidate, if it has ended.
    fn death(&mut self) -> Option<anyhow::Error> {
        let status = match self {
            Self::Server(server, _) | Self::Reloaded(server, _) | Self::Client(server, _) => {
                return server.death();
            }
            Self::Child(piped, _) => piped.child.status(),
            Self::HandWritten(started) => started.status(),
            Self::Shared(_) | Self::Other(_) | Self::Command(_) => None,
        };
        status.map(|status| anyhow!("it has ended: {status}"))
    }
}

/// Makes a load that ends with the suite, or when it takes far longer than it should.
fn run(load: &Load, child: Option<&ChildServer>, cell: Cell<'_>) -> anyhow::Result<Report> {
    let clock = Clock::system();
    let about = Duration::from_millis(cell.case.about_ms).max(cell.duration);
    let end = clock.now_exact() + cell.warm_up + about * 3 + PATIENCE;
    let load = Load { stop: StopFlag::default(), ..load.clone() };
    let mut watch = |_: &_| {
        if cell.ground.runner.stop.is_set() || clock.now_exact() > end {
            load.stop.stop();
        }
    };
    let outcome = match child {
        Some(child) => load.run_child(child, &mut watch),
        None => load.run(&mut watch),
    };
    Ok(Report::new("", &load, &outcome?))
}

/// Makes a load on a bridge, and adds the CPU time of the bridge without that of the servers behind it.
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

/// Returns the load of a case on a server; in a soak, a load for each kind of messages in both eras.
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
        // A server that does nothing but answer stands beside clients too.
        _ if case.between == ComparisonKind::Clients => Arc::new(get("/plaintext", 13)?),
        Request::Get(target, bytes) => Arc::new(get(target, *bytes)?),
        Request::Mcp(operation) if found.is_some_and(|found| found.peer.reads_no_messages) => {
            let request = unread_message(*operation, case.era, url("/mcp")?);
            Arc::new(HttpRequests::new(&[request])?)
        }
        Request::Mcp(operation) => {
            let is_persistent = case.is_persistent;
            let endpoint = Endpoint { url: url("/mcp")?, headers: Vec::new(), is_persistent };
            let facts = probe_http(&endpoint, &address, None, &revisions(case), PROBE_TIMEOUT)?;
            Arc::new(messages(*operation, &facts, Some(&endpoint), case)?)
        }
    };
    let options = load_options(cell);
    let tls = options.tls(&url("/")?, if case.is_http2 { "h2" } else { "http/1.1" })?;
    let mut load = options.load(requests, vec![address], cell.ground.runner.stop);
    load.server = Some(server.id());
    load.tls = tls;
    load.connection_options = ConnectionOptions { is_http2: case.is_http2, ..load.connection_options };
    load.pace = case.rate.map_or(load.pace, |rate| Pace::Constant { rate });
    if let Some(fewer) = found.and_then(|found| found.peer.connections_instead_of(case.connections)) {
        load.connections = fewer as usize;
    }
    Ok(load)
}

fn child(found: &Found, cell: Cell<'_>) -> anyhow::Result<Subject> {
    let Request::Mcp(operation) = cell.case.request else { bail!("pipes carry MCP") };
    let setup = found.peer.setup(Role::Pipes).context("it cannot be that")?;
    let mut command = vec![found.program.display().to_string()];
    command.extend(setup.arguments.iter().map(|argument| cell.ground.with_folders(argument)));
    run_on(&cell.ground.cores.server);
    let child = ChildServer::start(&command);
    run_on(&cell.ground.cores.load);
    let piped = Piped { child: child?, groups: cell.ground.runner.groups.clone() };
    piped.groups.add(piped.child.id());
    let facts = probe_child(&piped.child, &revisions(cell.case), PROBE_TIMEOUT)?;
    let requests = Arc::new(messages(operation, &facts, None, cell.case)?);
    let load = load_options(cell).load(requests, Vec::new(), cell.ground.runner.stop);
    let load = Load { server: Some(piped.child.id()), ..load };
    Ok(Subject::Child(Box::new(piped), load))
}

fn messages(
    operation: Operation,
    facts: &McpServerFacts,
    endpoint: Option<&Endpoint>,
    case: &Case,
) -> anyhow::Result<McpRequests> {
    // Sessions need a connection that lasts, and pipes are one.
    let is_possible = facts.revision.era() == Era::Legacy && endpoint.is_some() && case.is_persistent;
    // Servers on SDKs are set up without sessions.
    let has_sessions = is_possible && !matches!(case.workload, Workload::Mcp | Workload::McpSoak);
    let sessions = if has_sessions { SessionUse::PerConnection } else { SessionUse::None };
    Ok(McpRequests::new(facts.revision, sessions, &[operation.on(facts)], endpoint)?)
}

/// Returns a message for a server that does not read it.
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

/// Returns the revisions in which a server is asked, the newest first.
fn revisions(case: &Case) -> Vec<Revision> {
    let eras = case.era.map_or_else(|| vec![MessageEra::Modern, MessageEra::Legacy], |era| vec![era]);
    eras.into_iter().map(MessageEra::revision).collect()
}

fn load_options(cell: Cell<'_>) -> LoadOptions {
    let case = cell.case;
    // Not all peers support key exchanges that withstand quantum computers.
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

const NO_SERVER: &str = "there is no server";
const NO_REQUESTS: &str = "the case has no number of requests";

const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that a load may take beyond three times its duration.
const PATIENCE: Duration = Duration::from_secs(2);
