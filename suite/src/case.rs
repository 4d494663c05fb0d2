//! The cases of the suite, listed in `suite/data/cases.toml`. A case has a load and several candidates.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thruway_bench::{Era, FoundTool, McpOperation, McpServerFacts, Revision};

/// The workloads in the order of the reports. The doc comments are the help texts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// W1: small responses on keep-alive connections
    #[default]
    Plaintext,
    /// W2: small responses with pipelining
    Pipelining,
    /// W3: with and without keep-alive
    KeepAlive,
    /// W4: MCP messages over HTTP
    McpHttp,
    /// W5: MCP messages over pipes, and over HTTP
    McpStdio,
    /// W6: gateways in front of other servers
    Gateway,
    /// W7: ten thousand connections
    Connections,
    /// W8: TLS, and handshakes
    Tls,
    /// W9: HTTP/2, to servers and through gateways
    Http2,
    /// axum on this engine, compared with axum on hyper
    Axum,
    /// MCP servers built with SDKs, in both eras, over HTTP and pipes, compared with echo servers
    Mcp,
    /// A million MCP messages, and the growth of the memory
    McpSoak,
    /// MCP clients, each with a server of its own library
    McpClient,
    /// Bridges from HTTP to an MCP server on pipes
    McpBridge,
    /// One endpoint for several MCP servers, compared with other federations
    Federation,
    /// Runs of `thruway` commands
    McpCommand,
    /// CPU time on one core, compared with the minimum cost on this machine
    Floor,
    /// The cost of the dashboard and of traces
    Visibility,
    /// Request counts of load generators, compared with the count of the server
    CrossCheck,
}

/// One load of a workload, applied to several candidates in turn.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// The workload: the key of the table in the file.
    #[serde(skip)]
    pub(crate) workload: Workload,
    /// The unique name, for reports.
    pub(crate) name: String,
    /// Name of the Thruway server that this case compares with the peers.
    #[serde(default = "thruway")]
    pub(crate) ours: String,
    /// The request.
    pub(crate) request: Request,
    /// Era of the MCP messages. With `None`, the load uses the newest era that the server supports.
    pub(crate) era: Option<MessageEra>,
    /// Number of simultaneous connections. Ignored for pipes.
    pub(crate) connections: u32,
    /// Number of requests in flight on each connection or pipe. Over HTTP/2, each one is a stream.
    #[serde(default = "one")]
    pub(crate) pipeline: u16,
    /// The use of TLS.
    #[serde(default)]
    pub(crate) security: Security,
    /// `true` for HTTP/2. Without TLS, clients use HTTP/2 with prior knowledge.
    #[serde(default, rename = "http2")]
    pub(crate) is_http2: bool,
    /// `true` if connections are kept alive.
    #[serde(default = "yes", rename = "persistent")]
    pub(crate) is_persistent: bool,
    /// Requests per second in an open loop; `None` for a closed loop.
    pub(crate) rate: Option<f64>,
    /// Number of requests. With `None`, the duration of the suite applies.
    pub(crate) requests: Option<u64>,
    /// Estimated duration of these requests, in milliseconds.
    #[serde(default)]
    pub(crate) about_ms: u64,
    /// Minimum duration of each measurement, in milliseconds, if a candidate is slow.
    #[serde(default)]
    pub(crate) at_least_ms: u64,
    /// The kind of comparison.
    #[serde(default)]
    pub(crate) between: ComparisonKind,
    /// The conditions of the load.
    #[serde(default)]
    pub(crate) circumstance: LoadCondition,
    /// Name of the MCP server behind federations. A second process of this server, without a federation, can
    /// be a candidate.
    pub(crate) backend: Option<String>,
    /// The peers in this case.
    #[serde(default)]
    pub(crate) peers: Peers,
    /// If time is short, the suite skips cases with high ranks first. The main cases of a workload have rank
    /// 0.
    #[serde(default)]
    pub(crate) rank: u8,
}

fn thruway() -> String {
    "thruway".to_owned()
}

const fn one() -> u16 {
    1
}

const fn yes() -> bool {
    true
}

/// All cases, in the order in which they run. The file is compiled into this program. An error in it ends
/// every run, and a test detects it.
pub(crate) static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let file: Result<BTreeMap<Workload, Vec<Case>>, _> = toml::from_str(include_str!("../data/cases.toml"));
    let tables = file.unwrap_or_else(|error| panic!("cases.toml: {error}")).into_iter();
    let of_table =
        |(workload, cases): (_, Vec<Case>)| cases.into_iter().map(move |case| Case { workload, ..case });
    tables.flat_map(of_table).collect()
});

/// The use of TLS and the kind of handshakes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Security {
    /// No TLS.
    #[default]
    None,
    /// TLS with resumed sessions.
    Resumed,
    /// TLS with full handshakes.
    Full,
}

/// A role in which a server can start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// A server with `GET /plaintext`.
    Http,
    /// An MCP server with `POST /mcp`.
    Mcp,
    /// An MCP server on standard input and output.
    Pipes,
    /// A gateway.
    Gateway,
    /// A TLS server with `GET /ok` and `/download?bytes=N`.
    Tls,
    /// A server with `GET /ok` and `/download?bytes=N` over HTTP/2.
    Http2,
    /// A gateway that uses HTTP/2 with its clients.
    Http2Gateway,
    /// An MCP server with `POST /mcp`. With the argument `--call`, the same program is an MCP client.
    Client,
    /// A bridge from HTTP to an MCP server on pipes.
    Bridge,
    /// One endpoint for several MCP servers, with `POST /mcp`, or an MCP server without such an endpoint.
    Federation,
    /// An MCP server behind a federation.
    Member,
    /// A command that runs to its end.
    Command,
    /// A backend for gateways that listens on nine addresses with the same port.
    Backend,
    /// A backend for gateways that closes the connection after each response.
    ClosingBackend,
    /// A server that counts its requests, with `GET /plaintext` over HTTP/1.1 and HTTP/2.
    Counted,
    /// A server that counts its requests, like `Counted`, over TLS.
    CountedTls,
}

/// A request to a server.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// A GET request: the target, and the length of the response body in bytes.
    Get(String, u64),
    /// An MCP request.
    Mcp(Operation),
}

/// An era of MCP. The suite uses the newest revision of the era.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MessageEra {
    Modern,
    Legacy,
}

/// An operation of MCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operation {
    /// `ping`, or `server/discover` in the modern era.
    Ping,
    /// `tools/call` of `echo`.
    Echo,
    /// `tools/call` of `add`.
    Add,
    /// `resources/read`.
    Read,
    /// `tools/list`.
    Tools,
    /// `resources/list`.
    Resources,
    /// `prompts/list`.
    Prompts,
}

/// The kind of comparison of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ComparisonKind {
    /// Compares servers under the same load.
    #[default]
    Servers,
    /// Compares gateways in front of a backend with keep-alive.
    Gateways,
    /// Compares gateways in front of a backend that closes the connection after each response.
    GatewaysBeforeClosing,
    /// Compares servers on pipes. Also measures Thruway over HTTP on one connection.
    Pipes,
    /// Compares load generators on one Thruway server, to check our load generator.
    Generators,
    /// Compares our load generator with a hand-written loop, each with a Thruway server on pipes.
    PipeGenerators,
    /// Compares clients, each with a server of the same library.
    Clients,
    /// Compares bridges in front of a server on pipes.
    Bridges,
    /// Compares federations in front of an MCP server. Also measures the MCP server without a federation.
    Federations,
    /// Compares commands that may call a server.
    Commands,
}

impl ComparisonKind {
    /// Returns `true` if the server is the same for all candidates.
    pub(crate) const fn is_about_generators(self) -> bool {
        matches!(self, Self::Generators | Self::PipeGenerators)
    }

    /// Returns `true` if the candidates need a backend.
    const fn has_backend(self) -> bool {
        matches!(self, Self::Gateways | Self::GatewaysBeforeClosing)
    }
}

/// The conditions of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoadCondition {
    /// The server and the load generator have separate cores.
    #[default]
    Usual,
    /// The server, its backend and the load generator share all cores.
    SharedCores,
    /// One Thruway server reloads its config repeatedly. For comparison, a second Thruway server does not
    /// reload.
    Reloads,
    /// The server, its backend and the load generator share one core. Each program runs until it has no more
    /// work, so each poll of the server finds the requests of all connections, with any load generator.
    OneCore,
    /// The load opens MCP sessions, and then measures the memory of these idle sessions.
    IdleSessions,
}

/// The peers of a case.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Peers {
    /// All suitable peers except extra peers, which run only in cases that name them.
    #[default]
    All,
    /// All suitable peers, and the peers with these names.
    AllAnd(Vec<String>),
    /// The peers with these names.
    Only(Vec<String>),
    /// No peer.
    None,
}

impl Workload {
    /// Returns the workloads of published reports, W1 to W9.
    pub(crate) fn published() -> &'static [Self] {
        &Self::value_variants()[..9]
    }
}

impl Peers {
    /// Returns the names of the peers that the case lists.
    pub(crate) fn named(&self) -> &[String] {
        match self {
            Self::AllAnd(names) | Self::Only(names) => names,
            Self::All | Self::None => &[],
        }
    }
}

impl Operation {
    /// Returns the request for a server with these properties.
    pub(crate) fn on(self, facts: &McpServerFacts) -> McpOperation {
        let call = |name: &str, arguments: Value| {
            let known = facts.tools.iter().find(|tool| is_name_of(name, tool)).cloned();
            let tool =
                known.unwrap_or_else(|| FoundTool { name: name.to_owned(), input_schema: Value::Null });
            let mirrored = tool.mirrored(&arguments);
            let params = json!({"name": tool.name, "arguments": arguments});
            McpOperation { mirrored, ..plain("tools/call", params) }
        };
        match self {
            Self::Ping if facts.revision.era() == Era::Modern => plain("server/discover", json!({})),
            Self::Ping => plain("ping", json!({})),
            Self::Echo => call("echo", json!({"message": "Benchmark test message {n}"})),
            Self::Add => call("add", json!({"a": 5, "b": 3})),
            Self::Read => plain("resources/read", json!({"uri": "example://hello"})),
            Self::Tools => plain("tools/list", json!({})),
            Self::Resources => plain("resources/list", json!({})),
            Self::Prompts => plain("prompts/list", json!({})),
        }
    }
}

/// Returns `true` if a tool has this name, after the prefix that a federation may add.
fn is_name_of(name: &str, tool: &FoundTool) -> bool {
    let prefix = tool.name.strip_suffix(name);
    prefix.is_some_and(|prefix| !prefix.ends_with(char::is_alphanumeric))
}

fn plain(method: &str, params: Value) -> McpOperation {
    McpOperation { method: method.to_owned(), params, mirrored: Vec::new(), weight: 1 }
}

impl MessageEra {
    /// Returns the newest revision of the era.
    pub(crate) const fn revision(self) -> Revision {
        match self {
            Self::Modern => Revision::LATEST,
            Self::Legacy => Revision::LATEST_LEGACY,
        }
    }
}

impl Case {
    /// Returns the role in which the candidates start.
    pub(crate) fn role(&self) -> Role {
        match (self.between, &self.request) {
            (ComparisonKind::Pipes | ComparisonKind::PipeGenerators, _) => Role::Pipes,
            (ComparisonKind::Clients, _) => Role::Client,
            (ComparisonKind::Bridges, _) => Role::Bridge,
            (ComparisonKind::Federations, _) => Role::Federation,
            (ComparisonKind::Commands, _) => Role::Command,
            _ if self.is_counted() && self.security == Security::None => Role::Counted,
            _ if self.is_counted() => Role::CountedTls,
            (between, _) if between.has_backend() && self.is_http2 => Role::Http2Gateway,
            (between, _) if between.has_backend() => Role::Gateway,
            (_, Request::Mcp(_)) => Role::Mcp,
            (_, Request::Get(..)) if self.is_http2 => Role::Http2,
            (_, Request::Get(..)) if self.security != Security::None => Role::Tls,
            (_, Request::Get(..)) => Role::Http,
        }
    }

    /// Returns `true` if the case needs this server.
    pub(crate) fn needs(&self, peer: &str) -> bool {
        self.ours == peer
            || self.backend.as_deref() == Some(peer)
            || match self.between {
                ComparisonKind::Bridges => peer == OUR_SDK,
                ComparisonKind::GatewaysBeforeClosing => peer == CLOSING_BACKEND,
                _ => false,
            }
    }

    /// Returns `true` if the server also counts the requests.
    pub(crate) fn is_counted(&self) -> bool {
        self.workload == Workload::CrossCheck
    }

    /// Returns `true` if the report shows the memory of the server's connections.
    pub(crate) const fn holds_connections(&self) -> bool {
        self.is_crowded() && self.rate.is_some()
    }

    /// Returns `true` if each round starts its servers anew. Otherwise, memory from earlier connections would
    /// hide the growth in this round. On one core, the figures of a process also depend on its start.
    pub(crate) fn restarts_servers(&self) -> bool {
        let measures_memory = matches!(self.workload, Workload::Connections | Workload::McpSoak)
            || self.circumstance == LoadCondition::IdleSessions;
        measures_memory || self.is_crowded() || self.takes_turns()
    }

    /// Returns `true` if the server and the load generator take turns on one core.
    pub(crate) fn takes_turns(&self) -> bool {
        self.circumstance == LoadCondition::OneCore
    }

    /// Returns `true` if the case has at least ten thousand connections, so that it needs more time.
    pub(crate) const fn is_crowded(&self) -> bool {
        self.connections >= CROWDED_CONNECTIONS_MIN
    }
}

/// Converts a duration to whole seconds, at least 1. Some programs accept only whole seconds.
pub(crate) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs().max(1)
}

/// Name of the server built with our SDK. Some cases measure this server, and bridges use it as their server.
pub(crate) const OUR_SDK: &str = "mcp-on-thruway";

/// Name of the backend that closes the connection after each response.
pub(crate) const CLOSING_BACKEND: &str = "closing-backend";

/// Minimum number of connections of a crowded case.
const CROWDED_CONNECTIONS_MIN: u32 = 10_000;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn case_names_are_unique_and_every_workload_has_a_main_case() {
        let names: BTreeSet<_> = CASES.iter().map(|case| &case.name).collect();
        assert_eq!(names.len(), CASES.len());
        for workload in Workload::value_variants() {
            assert!(CASES.iter().any(|case| case.workload == *workload && case.rank == 0), "{workload:?}");
        }
    }
}
