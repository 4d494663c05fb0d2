//! A candidate of a case: a server, a child on pipes, or another load generator on a server of ours.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::calls;
use crate::case::{Amount, Case, ComparisonKind, Operation, Request, Role, Security, Workload, revision_of};
use crate::commands;
use crate::counter;
use crate::figures::{Figures, cpu_each, kept};
use crate::process::cpu_of_program;
use crate::results::CandidateResult;
use crate::soak;
use serde_json::json;
use thruway_bench::{
    ChildServer, ConnectionOptions, Endpoint, Era, Expected, HttpRequest, HttpRequests, Limit, Load,
    LoadOptions, LoadUrl, McpRequests, McpServerFacts, Pace, ProcessGroups, Report, Requests, Revision,
    SessionUse, StopFlag, TlsOptions, probe_child, probe_http, usage,
};
use thruway_client::UpstreamAddr;
use thruway_net::Clock;

use crate::cores::run_on;
use crate::found::Found;
use crate::generators::Generator;
use crate::hand_written::HandWritten;
use crate::reloads::Reloads;
use crate::server::{Server, ServerResources};
use crate::terminal::ProgressLine;

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
    rounds: Vec<Figures>,
    failure: Option<String>,
    /// Number of its connections, if it has room for fewer than the case has.
    fewer_connections: Option<usize>,
}

enum Subject {
    Server(Box<Server>, Load),
    Reloaded(Box<Server>, Load),
    Shared(Load),
    Child(Box<Piped>, Load),
    Other(Generator),
    HandWritten(Box<HandWritten>),
    Soak(Box<Server>, Vec<Load>),
    Client(Box<Server>, Found),
    Bridge(Box<Server>, Load),
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
        let mut contender =
            Self { entry, subject: None, rounds: Vec::new(), failure: None, fewer_connections: None };
        contender.prepare(cell);
        contender
    }

    pub(crate) fn name(&self) -> &str {
        &self.entry.name
    }

    /// Returns the result.
    pub(crate) fn into_result(self) -> CandidateResult {
        CandidateResult {
            name: self.entry.name,
            rounds: self.rounds,
            failure: self.failure,
            connections: self.fewer_connections.map(|fewer| fewer as u64),
        }
    }

    /// Loads it once. One that has failed is not loaded again.
    pub(crate) fn measure(&mut self, cell: Cell<'_>, line: &ProgressLine) {
        // Memory that earlier connections leave in a server would hide the growth in the next round.
        let workload = cell.case.workload;
        let is_lasting =
            matches!(workload, Workload::Connections | Workload::McpSoak) || cell.case.is_crowded();
        if is_lasting && !self.rounds.is_empty() {
            self.subject = None;
            self.prepare(cell);
        }
        let Some(subject) = &mut self.subject else { return };
        let measured = measure_counted(subject, cell, line);
        let death = subject.death();
        if cell.ground.stop.is_set() {
            return;
        }
        // Figures of a server that has died are not those of one that works.
        match death.map_or(measured, Err) {
            Ok(figures) => self.rounds.push(figures),
            Err(why) => self.fail(why),
        }
    }

    fn prepare(&mut self, cell: Cell<'_>) {
        match Subject::start(&self.entry.what, cell) {
            Ok(subject) => {
                let wanted = cell.case.connections as usize;
                self.fewer_connections = subject.connections().filter(|given| *given < wanted);
                self.subject = Some(subject);
            }
            // An interrupted start is no failure.
            Err(why) if !cell.ground.stop.is_set() => self.fail(why),
            Err(_) => {}
        }
    }

    fn fail(&mut self, why: String) {
        self.subject = None;
        self.failure = Some(why);
    }
}

/// Loads a subject, and compares the count of requests with that of the server where it has one.
fn measure_counted(subject: &mut Subject, cell: Cell<'_>, line: &ProgressLine) -> Result<Figures, String> {
    let Some(server) = cell.shared.filter(|_| cell.case.is_counted()) else {
        return subject.measure(cell, line);
    };
    let before = counter::requests(server.admin)?;
    let figures = subject.measure(cell, line)?;
    let answered = counter::requests(server.admin)?.saturating_sub(before);
    let open_max = u64::from(cell.case.connections) * u64::from(cell.case.pipeline);
    counter::check(figures.answered, answered, open_max)?;
    Ok(figures)
}

impl Subject {
    fn start(what: &Measured, cell: Cell<'_>) -> Result<Self, String> {
        match what {
            Measured::Server(found, Role::Pipes) if found.peer.reads_no_messages => {
                HandWritten::start(found, cell.ground).map(|started| Self::HandWritten(Box::new(started)))
            }
            Measured::Server(found, Role::Pipes) => child(found, cell),
            Measured::Server(found, Role::Client) if !found.peer.reads_no_messages => {
                let server = Server::start(found, Role::Client, None, cell.ground)?;
                Ok(Self::Client(Box::new(server), found.clone()))
            }
            Measured::Server(found, Role::Bridge) => {
                let (server, load) = listening(found, Role::Bridge, cell)?;
                Ok(Self::Bridge(Box::new(server), load))
            }
            Measured::Server(found, Role::Command) => Ok(Self::Command(found.clone())),
            Measured::Server(found, role) if cell.case.workload == Workload::McpSoak => {
                let server = Server::start(found, *role, None, cell.ground)?;
                let loads =
                    soak_loads(cell, &server, found).map_err(|why| server.with_what_it_printed(&why))?;
                Ok(Self::Soak(Box::new(server), loads))
            }
            Measured::Server(found, role) => {
                let (server, load) = listening(found, *role, cell)?;
                Ok(Self::Server(Box::new(server), load))
            }
            Measured::Reloaded(found) => {
                let (server, load) = listening(found, Role::Gateway, cell)?;
                Ok(Self::Reloaded(Box::new(server), load))
            }
            Measured::HandWritten(ours) => {
                HandWritten::start(ours, cell.ground).map(|started| Self::HandWritten(Box::new(started)))
            }
            Measured::Ours(Some(generator)) => Ok(Self::Other(*generator)),
            Measured::Ours(None) => {
                http_load(cell, cell.shared.ok_or(NO_SERVER)?, cell.case.request, None).map(Self::Shared)
            }
        }
    }

    fn measure(&mut self, cell: Cell<'_>, line: &ProgressLine) -> Result<Figures, String> {
        match self {
            Self::Server(server, load) => {
                // The growth counts from the time before the connections.
                let before = usage(server.id()).filter(|_| cell.case.holds_connections());
                let report = run(load, None, cell, line)?;
                Ok(Figures::of(&report, before.map(|before| before.resident_bytes)))
            }
            Self::Reloaded(server, load) => {
                let reloads = Reloads::begin(server.id(), server.config());
                let report = run(load, None, cell, line);
                match reloads.end() {
                    0 => Err("it was not told to read its config again".to_owned()),
                    _ => report.map(|report| Figures::of(&report, None)),
                }
            }
            Self::Shared(load) => run(load, None, cell, line).map(|report| Figures::of(&report, None)),
            Self::Child(piped, load) => {
                run(load, Some(&piped.child), cell, line).map(|report| Figures::of(&report, None))
            }
            Self::Soak(server, loads) => {
                let Amount::Requests(requests, _) = cell.case.amount else {
                    return Err(NO_SERVER.to_owned());
                };
                let mut make = |load: &Load| run(load, None, cell, line);
                soak::run(server.id(), loads, requests, cell.duration, &mut make)
            }
            Self::Client(server, client) => {
                let calling =
                    || calls::call(client, server, cell.case.connections, cell.duration, cell.ground);
                line.during("its client", calling)
            }
            Self::Bridge(_, load) => {
                run(&Load { limit: Limit::Duration(cell.warm_up), ..load.clone() }, None, cell, line)?;
                let program = cell.behind_bridges.ok_or(NO_SERVER)?;
                let before = cpu_of_program(program);
                let report = run(load, None, cell, line)?;
                let behind = cpu_of_program(program).saturating_sub(before);
                Ok(without_behind(Figures::of(&report, None), behind))
            }
            Self::Command(found) => {
                let Amount::Requests(runs, _) = cell.case.amount else { return Err(NO_SERVER.to_owned()) };
                let server = cell.backend.ok_or(NO_SERVER)?;
                line.during("a command", || commands::repeat(found, server, runs, cell.ground))
            }
            Self::HandWritten(started) => {
                line.during("a loop written by hand", || started.load(cell.case, cell.warm_up, cell.duration))
            }
            Self::Other(generator) => {
                let server = cell.shared.ok_or(NO_SERVER)?;
                let load = || generator.load(cell.case, cell.duration, server, cell.ground);
                line.during(generator.name(), load)
            }
        }
    }

    /// Returns the number of connections that a server gets.
    fn connections(&self) -> Option<usize> {
        match self {
            Self::Server(_, load) | Self::Reloaded(_, load) => Some(load.connections),
            _ => None,
        }
    }

    /// Returns the reason for the end of the candidate, if it has ended.
    fn death(&mut self) -> Option<String> {
        match self {
            Self::Server(server, _)
            | Self::Reloaded(server, _)
            | Self::Soak(server, _)
            | Self::Client(server, _)
            | Self::Bridge(server, _) => server.death(),
            Self::Child(piped, _) => Some(format!("it has ended: {}", piped.child.status()?)),
            Self::HandWritten(started) => started.death(),
            Self::Shared(_) | Self::Other(_) | Self::Command(_) => None,
        }
    }
}

/// Makes a load that ends with the suite, or when it takes far longer than it should.
fn run(
    load: &Load,
    child: Option<&ChildServer>,
    cell: Cell<'_>,
    line: &ProgressLine,
) -> Result<Report, String> {
    let clock = Clock::system();
    let about = match cell.case.amount {
        Amount::Time => cell.duration,
        Amount::Requests(_, about) => about.max(cell.duration),
    };
    let end = clock.now_exact() + cell.warm_up + about * 3 + PATIENCE;
    let load = Load { stop: StopFlag::default(), ..load.clone() };
    let mut watch = |progress: &_| {
        if cell.ground.stop.is_set() || clock.now_exact() > end {
            load.stop.stop();
        }
        line.show(&load, progress);
    };
    let outcome = match child {
        Some(child) => load.run_child(child, &mut watch),
        None => load.run(&mut watch),
    };
    line.finish();
    let report = outcome.map(|outcome| Report::new("", &load, &outcome));
    report.map_err(|error| error.to_string())
}

/// Starts a server, and returns it with its load.
fn listening(found: &Found, role: Role, cell: Cell<'_>) -> Result<(Server, Load), String> {
    let backend = cell.backend.map(|backend| backend.address);
    let server = Server::start(found, role, backend, cell.ground)?;
    let mut load = http_load(cell, &server, cell.case.request, Some(found))
        .map_err(|why| server.with_what_it_printed(&why))?;
    if let Some(fewer) = found.peer.connections_instead_of(cell.case.connections) {
        load.connections = fewer as usize;
    }
    Ok((server, load))
}

fn http_load(
    cell: Cell<'_>,
    server: &Server,
    request: Request,
    found: Option<&Found>,
) -> Result<Load, String> {
    let reads_no_messages = found.is_some_and(|found| found.peer.reads_no_messages);
    // A server that does nothing but answer stands beside clients too.
    let request =
        if cell.case.between == ComparisonKind::Clients { Request::Get("/plaintext", 13) } else { request };
    let address = UpstreamAddr::from(server.address);
    let scheme = if cell.case.security == Security::None { "http" } else { "https" };
    let requests: Arc<dyn Requests> = match request {
        Request::Get(target, bytes) => {
            let url = url(server, scheme, target)?;
            let expected = Expected { status: Some(200), content_bytes: Some(bytes), ..Expected::default() };
            let is_persistent = cell.case.is_persistent;
            let request = HttpRequest { is_persistent, expected, ..HttpRequest::get(url) };
            let requests = HttpRequests::new(&[request]);
            let requests =
                if cell.case.is_http2 { requests.and_then(HttpRequests::for_http2) } else { requests };
            Arc::new(requests.map_err(|error| error.to_string())?)
        }
        Request::Mcp(operation) if reads_no_messages => {
            let request = unread_message(operation, cell.case.era, url(server, scheme, "/mcp")?);
            Arc::new(HttpRequests::new(&[request]).map_err(|error| error.to_string())?)
        }
        Request::Mcp(operation) => {
            let is_persistent = cell.case.is_persistent;
            let endpoint = Endpoint { url: url(server, scheme, "/mcp")?, headers: Vec::new(), is_persistent };
            let facts = probe_http(&endpoint, &address, None, &revisions(cell.case), PROBE_TIMEOUT);
            let facts = facts.map_err(|error| error.to_string())?;
            Arc::new(messages(operation, &facts, Some(&endpoint), cell.case)?)
        }
    };
    let options = load_options(cell);
    let tls = options
        .tls(&url(server, scheme, "/")?, if cell.case.is_http2 { "h2" } else { "http/1.1" })
        .map_err(|error| error.to_string())?;
    let load = options.load(requests, vec![address], cell.ground.stop);
    let connection_options = ConnectionOptions { is_http2: cell.case.is_http2, ..load.connection_options };
    Ok(Load { server: Some(server.id()), tls, connection_options, ..with_rate(load, cell.case) })
}

fn child(found: &Found, cell: Cell<'_>) -> Result<Subject, String> {
    let Request::Mcp(operation) = cell.case.request else { return Err("pipes carry MCP".to_owned()) };
    let setup = found.peer.setup(Role::Pipes).ok_or("it cannot be that")?;
    let program = found.program.display().to_string();
    let command: Vec<_> = [program]
        .into_iter()
        .chain(setup.arguments.iter().map(|argument| cell.ground.with_peers(argument)))
        .collect();
    run_on(&cell.ground.cores.server);
    let child = ChildServer::start(&command);
    run_on(&cell.ground.cores.load);
    let child = child.map_err(|error| error.to_string())?;
    cell.ground.groups.add(child.id());
    let piped = Piped { child, groups: cell.ground.groups.clone() };
    let facts =
        probe_child(&piped.child, &revisions(cell.case), PROBE_TIMEOUT).map_err(|error| error.to_string())?;
    let requests = Arc::new(messages(operation, &facts, None, cell.case)?);
    let load = load_options(cell).load(requests, Vec::new(), cell.ground.stop);
    let load = Load { server: Some(piped.child.id()), ..load };
    Ok(Subject::Child(Box::new(piped), load))
}

fn messages(
    operation: Operation,
    facts: &McpServerFacts,
    endpoint: Option<&Endpoint>,
    case: &Case,
) -> Result<McpRequests, String> {
    // Sessions need a connection that lasts, and pipes are one.
    let is_possible = facts.revision.era() == Era::Legacy && endpoint.is_some() && case.is_persistent;
    // Servers on SDKs are set up without sessions.
    let has_sessions = is_possible && !matches!(case.workload, Workload::McpSdks | Workload::McpSoak);
    let sessions = if has_sessions { SessionUse::PerConnection } else { SessionUse::None };
    let requests = McpRequests::new(facts.revision, sessions, &[operation.on(facts)], endpoint);
    requests.map_err(|error| error.to_string())
}

/// A message for a server that does not read it.
fn unread_message(operation: Operation, era: Option<Era>, url: LoadUrl) -> HttpRequest {
    let revision = revision_of(era.unwrap_or(Era::Modern));
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

/// The kinds of messages of a soak, in both eras.
fn soak_loads(cell: Cell<'_>, server: &Server, found: &Found) -> Result<Vec<Load>, String> {
    let kinds = [
        (Era::Modern, Operation::Echo),
        (Era::Modern, Operation::Tools),
        (Era::Legacy, Operation::Echo),
        (Era::Legacy, Operation::Ping),
    ];
    let load = |(era, operation)| {
        let case = Case { era: Some(era), ..cell.case.clone() };
        http_load(Cell { case: &case, ..cell }, server, Request::Mcp(operation), Some(found))
    };
    kinds.into_iter().map(load).collect()
}

/// Adds the CPU time of a bridge alone, without that of the servers behind it.
fn without_behind(figures: Figures, behind: Duration) -> Figures {
    let behind = cpu_each(behind, figures.answered);
    let alone = figures.server_cpu.map(|cpu| kept((cpu - behind).max(0.0)));
    Figures { program_cpu: alone, ..figures }
}

/// The revisions in which a server is asked, the newest first.
fn revisions(case: &Case) -> Vec<Revision> {
    case.era.map_or_else(|| REVISIONS.into(), |era| vec![revision_of(era)])
}

fn url(server: &Server, scheme: &str, target: &str) -> Result<LoadUrl, String> {
    LoadUrl::parse(&format!("{scheme}://{}{target}", server.address)).map_err(|error| error.to_string())
}

fn load_options(cell: Cell<'_>) -> LoadOptions {
    let case = cell.case;
    let limit = match case.amount {
        Amount::Time => Limit::Duration(cell.duration),
        Amount::Requests(requests, _) => Limit::Requests(requests),
    };
    let resume = case.security != Security::Full;
    LoadOptions {
        connections: case.connections,
        limit,
        warm_up: cell.warm_up,
        pipeline: case.pipeline,
        is_persistent: case.is_persistent,
        tls: TlsOptions { verify: false, post_quantum: false, resume, ..TlsOptions::default() },
        ..LoadOptions::default()
    }
}

fn with_rate(load: Load, case: &Case) -> Load {
    Load { pace: case.rate.map_or(load.pace, |rate| Pace::Constant { rate }), ..load }
}

const NO_SERVER: &str = "there is no server";

const REVISIONS: [Revision; 2] = [Revision::LATEST, Revision::LATEST_LEGACY];
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that a load may take beyond three times its duration.
const PATIENCE: Duration = Duration::from_secs(2);
