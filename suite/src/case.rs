//! The cases of the suite, which `suite/data/cases.toml` lists: a load, and the candidates.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thruway_bench::{Era, FoundTool, McpOperation, McpServerFacts, Revision};

/// A workload, in the order of the reports. The comments are the help of the command line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// W1: small responses on keep-alive connections
    #[default]
    Plaintext,
    /// W2: the same, pipelined
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
    /// axum on this engine beside axum on hyper
    Axum,
    /// Servers on MCP SDKs in both eras, over HTTP and over pipes, beside bare echoes
    Mcp,
    /// A million MCP messages, and the growth of the memory
    McpSoak,
    /// MCP clients, each with a server of its own library
    McpClient,
    /// Bridges from HTTP to an MCP server on pipes
    McpBridge,
    /// Commands of the command line, from start to end
    McpCommand,
    /// Counts of load generators beside that of the server
    CrossCheck,
}

/// One load of one workload, made on several candidates in turn.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// The workload, which is the key of its table in the file.
    #[serde(skip)]
    pub(crate) workload: Workload,
    /// Its name in reports; each has its own.
    pub(crate) name: String,
    /// Name of the peer that is ours in this case.
    #[serde(default = "thruway")]
    pub(crate) ours: String,
    /// The request.
    pub(crate) request: Request,
    /// Era of the MCP messages; the newest that the server knows if `None`.
    pub(crate) era: Option<MessageEra>,
    /// Connections at the same time; of no concern over pipes.
    pub(crate) connections: u32,
    /// Requests that are unanswered on a connection, or on a pipe, at the same time: over HTTP/2, streams.
    #[serde(default = "one")]
    pub(crate) pipeline: u16,
    /// The use of TLS.
    #[serde(default)]
    pub(crate) security: Security,
    /// `true` for HTTP/2 with prior knowledge: TLS is another workload.
    #[serde(default, rename = "http2")]
    pub(crate) is_http2: bool,
    /// `true` if connections are kept alive.
    #[serde(default = "yes", rename = "persistent")]
    pub(crate) is_persistent: bool,
    /// Requests a second in an open loop; nothing in a closed one.
    pub(crate) rate: Option<f64>,
    /// Number of requests; if `None`, the load has the duration that the suite has for each.
    pub(crate) requests: Option<u64>,
    /// About how many milliseconds these requests take.
    #[serde(default)]
    pub(crate) about_ms: u64,
    /// The kind of comparison.
    #[serde(default)]
    pub(crate) between: ComparisonKind,
    /// The surroundings of the load.
    #[serde(default)]
    pub(crate) circumstance: LoadCondition,
    /// The peers besides ours.
    #[serde(default)]
    pub(crate) peers: Peers,
    /// Rank: if time is short, the highest is left out first. The main cases of a workload have 0.
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

/// All cases, in the order in which they run. The file is part of this program, and a test reads it: an error
/// in it ends any run.
pub(crate) static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let file: Result<BTreeMap<Workload, Vec<Case>>, _> = toml::from_str(include_str!("../data/cases.toml"));
    let tables = file.unwrap_or_else(|error| panic!("cases.toml: {error}")).into_iter();
    let of_table =
        |(workload, cases): (_, Vec<Case>)| cases.into_iter().map(move |case| Case { workload, ..case });
    tables.flat_map(of_table).collect()
});

/// The use of TLS, and the start of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Security {
    /// No TLS.
    #[default]
    None,
    /// Sessions are resumed.
    Resumed,
    /// Each handshake is a full one.
    Full,
}

/// A role of a server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// It has `GET /plaintext`.
    Http,
    /// It has `POST /mcp`.
    Mcp,
    /// It speaks MCP on its standard input and output.
    Pipes,
    /// It stands before others.
    Gateway,
    /// It has `GET /ok` and `/download?bytes=N` in TLS.
    Tls,
    /// It has the same over HTTP/2.
    Http2,
    /// It stands before others and speaks HTTP/2 with its clients.
    Http2Gateway,
    /// It has `POST /mcp`, and its program is a client too, with `--call`.
    Client,
    /// It is a bridge from HTTP to an MCP server on pipes.
    Bridge,
    /// It is a command that ends.
    Command,
    /// It stands behind gateways, at nine addresses with the same port.
    Backend,
    /// It stands behind gateways, and closes after each response.
    ClosingBackend,
    /// It has `GET /plaintext` over HTTP/1.1 and HTTP/2, and tells how often it was asked.
    Counted,
    /// It has the same in TLS.
    CountedTls,
}

/// A request to a server.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// A GET of this target; the response has a body of so many bytes.
    Get(String, u64),
    /// A message of MCP.
    Mcp(Operation),
}

/// An era of MCP, of which the newest revision is spoken.
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
    /// `ping`, or `server/discover`, which is in its place in the modern era.
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
    /// Servers, under the same load.
    #[default]
    Servers,
    /// Gateways before a backend that keeps its connections.
    Gateways,
    /// Gateways before a backend that closes after each response.
    GatewaysBeforeClosing,
    /// Servers on pipes; and ours over HTTP, on one connection.
    Pipes,
    /// Load generators, on one server of ours: whether ours is to be trusted.
    Generators,
    /// Ours and a loop written by hand, each on a server of ours on pipes.
    PipeGenerators,
    /// Clients with a server of the same library.
    Clients,
    /// Bridges before a server on pipes.
    Bridges,
    /// Commands, run one after the other beside a server.
    Commands,
}

impl ComparisonKind {
    /// Returns `true` if the server is the same for all candidates.
    pub(crate) const fn is_about_generators(self) -> bool {
        matches!(self, Self::Generators | Self::PipeGenerators)
    }

    /// Returns `true` if the candidates stand before a backend.
    const fn has_backend(self) -> bool {
        matches!(self, Self::Gateways | Self::GatewaysBeforeClosing)
    }
}

/// The surroundings of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoadCondition {
    /// The server has a core of its own.
    #[default]
    Usual,
    /// The server, its backend and the load generator share all cores.
    SharedCores,
    /// Our server reloads its config again and again; another one of ours does not.
    Reloads,
    /// The server and the load generator share one core, so that neither waits for the other to wake up.
    OneCore,
}

/// The peers of a case besides ours.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Peers {
    /// All possible peers, without the extra ones, which take part only in cases that name them.
    #[default]
    All,
    /// All possible peers, and the peers with these names.
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
    /// Returns the names of the peers that a case names.
    pub(crate) fn named(&self) -> &[String] {
        match self {
            Self::AllAnd(names) | Self::Only(names) => names,
            Self::All | Self::None => &[],
        }
    }
}

impl Operation {
    /// Returns the message for a server that says this of itself.
    pub(crate) fn on(self, facts: &McpServerFacts) -> McpOperation {
        let call = |name: &str, arguments: Value| {
            let known = facts.tools.iter().find(|tool| tool.name == name).cloned();
            let tool =
                known.unwrap_or_else(|| FoundTool { name: name.to_owned(), input_schema: Value::Null });
            let mirrored = tool.mirrored(&arguments);
            McpOperation { mirrored, ..plain("tools/call", json!({"name": name, "arguments": arguments})) }
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
    /// Returns the role in which its candidates are started.
    pub(crate) fn role(&self) -> Role {
        match (self.between, &self.request) {
            (ComparisonKind::Pipes | ComparisonKind::PipeGenerators, _) => Role::Pipes,
            (ComparisonKind::Clients, _) => Role::Client,
            (ComparisonKind::Bridges, _) => Role::Bridge,
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

    /// Returns `true` if it cannot be measured without the peer of this name.
    pub(crate) fn needs(&self, peer: &str) -> bool {
        self.ours == peer
            || match self.between {
                ComparisonKind::Bridges => peer == OUR_SDK,
                ComparisonKind::GatewaysBeforeClosing => peer == CLOSING_BACKEND,
                _ => false,
            }
    }

    /// Returns `true` if the server counts the requests too.
    pub(crate) fn is_counted(&self) -> bool {
        self.workload == Workload::CrossCheck
    }

    /// Returns `true` if the report shows the memory of the server's connections.
    pub(crate) const fn holds_connections(&self) -> bool {
        self.is_crowded() && self.rate.is_some()
    }

    /// Returns `true` if it has ten thousand connections, which need more time.
    pub(crate) const fn is_crowded(&self) -> bool {
        self.connections >= CROWD
    }
}

/// Returns a duration in seconds, at least one, for programs that count in whole seconds.
pub(crate) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs().max(1)
}

/// A server on our SDK, which is ours in some cases and stands behind bridges.
pub(crate) const OUR_SDK: &str = "mcp-on-thruway";

/// A backend that closes after each response.
pub(crate) const CLOSING_BACKEND: &str = "closing-backend";

/// Number of connections from which a case counts as crowded.
const CROWD: u32 = 10_000;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own_and_every_workload_a_case_that_is_left_out_last() {
        let names: BTreeSet<_> = CASES.iter().map(|case| &case.name).collect();
        assert_eq!(names.len(), CASES.len());
        for workload in Workload::value_variants() {
            assert!(CASES.iter().any(|case| case.workload == *workload && case.rank == 0), "{workload:?}");
        }
    }
}
