//! One load of the suite: the request, the connections, the amount, and the peers.

use std::time::Duration;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use thruway_bench::{Era, FoundTool, McpOperation, McpServerFacts, Revision};

/// A workload, in the order of the reports. The comments are the help of the command line.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema, ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// W1: small responses on keep-alive connections
    Plaintext,
    /// W2: the same, pipelined
    Pipelining,
    /// W3: with and without keep-alive
    #[serde(rename = "keep-alive")]
    #[value(name = "keep-alive")]
    Persistence,
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
    #[value(name = "mcp")]
    McpSdks,
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
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Case {
    /// The workload it belongs to.
    pub(crate) workload: Workload,
    /// Name of the peer that is ours in this case.
    pub(crate) ours: &'static str,
    /// Era of the MCP messages; the newest that the server knows if `None`.
    pub(crate) era: Option<Era>,
    /// Its name in reports; each has its own.
    pub(crate) name: String,
    /// The request.
    pub(crate) request: Request,
    /// Connections at the same time; of no concern over pipes.
    pub(crate) connections: u32,
    /// Requests that are unanswered on a connection, or on a pipe, at the same time: over HTTP/2, streams.
    pub(crate) pipeline: u16,
    /// The use of TLS.
    pub(crate) security: Security,
    /// `true` for HTTP/2 with prior knowledge: TLS is another workload.
    pub(crate) is_http2: bool,
    /// `true` if connections are kept alive.
    pub(crate) is_persistent: bool,
    /// Requests a second in an open loop; nothing in a closed one.
    pub(crate) rate: Option<f64>,
    /// The amount of a measurement.
    pub(crate) amount: Amount,
    /// Between what the comparison is.
    pub(crate) between: ComparisonKind,
    /// The surroundings of the load.
    pub(crate) circumstance: LoadCondition,
    /// The peers besides ours.
    pub(crate) peers: Peers,
    /// Rank: if time is short, the highest is left out first. The main cases of a workload have 0.
    pub(crate) rank: u8,
}

/// The use of TLS, and the start of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Security {
    /// It is not.
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
    /// It has `GET /plaintext` over HTTP/1.1 and HTTP/2, and tells how often it was asked.
    Counted,
    /// It has the same in TLS.
    CountedTls,
}

/// A request to a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// A GET of this target; the response has a body of so many bytes.
    Get(&'static str, u64),
    /// A message of MCP.
    Mcp(Operation),
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

/// The amount of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Amount {
    /// As long as the suite says for each.
    Time,
    /// So many requests, which take about so long.
    Requests(u64, Duration),
}

/// The kind of comparison of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ComparisonKind {
    /// Servers, under the same load.
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

    const fn is_on_pipes(self) -> bool {
        matches!(self, Self::Pipes | Self::PipeGenerators)
    }
}

/// The surroundings of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoadCondition {
    /// The server has a core of its own.
    Usual,
    /// The server, its backend and the load generator share all cores.
    SharedCores,
    /// Our server reloads its config again and again; another one of ours does not.
    Reloads,
    /// The server and the load generator share one core, so that neither waits for the other to wake up.
    OneCore,
}

/// The peers of a case besides ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peers {
    /// All possible peers, without those that take part only in cases that name them.
    All,
    /// All possible peers, and the peers with these names.
    AllAnd(&'static [&'static str]),
    /// The peers with these names.
    Only(&'static [&'static str]),
    /// No peer.
    None,
}

impl Workload {
    /// Returns every workload.
    pub(crate) fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// Returns the workloads of published reports, W1 to W9.
    pub(crate) fn published() -> &'static [Self] {
        &Self::value_variants()[..9]
    }

    /// Returns its name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl Operation {
    /// Returns its name in reports.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Echo => "tools/call echo",
            Self::Add => "tools/call add",
            Self::Read => "resources/read",
            Self::Tools => "tools/list",
            Self::Resources => "resources/list",
            Self::Prompts => "prompts/list",
        }
    }

    /// As it is sent to a server that says this of itself.
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
            Self::Tools | Self::Resources | Self::Prompts => plain(self.label(), json!({})),
        }
    }
}

fn plain(method: &str, params: Value) -> McpOperation {
    McpOperation { method: method.to_owned(), params, mirrored: Vec::new(), weight: 1 }
}

impl Security {
    /// Returns the options of the command line. Not all peers support key exchanges that withstand quantum
    /// computers.
    const fn options(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Resumed => Some("--insecure --classical-key-exchange"),
            Self::Full => Some("--insecure --classical-key-exchange --full-handshakes"),
        }
    }
}

impl Case {
    pub(crate) fn new(
        workload: Workload,
        name: impl Into<String>,
        request: Request,
        connections: u32,
    ) -> Self {
        Self {
            workload,
            ours: "thruway",
            era: None,
            name: name.into(),
            request,
            connections,
            pipeline: 1,
            security: Security::None,
            is_http2: false,
            is_persistent: true,
            rate: None,
            amount: Amount::Time,
            between: ComparisonKind::Servers,
            circumstance: LoadCondition::Usual,
            peers: Peers::All,
            rank: 0,
        }
    }

    /// Returns the role in which its candidates are started.
    pub(crate) fn role(&self) -> Role {
        match (self.between, self.request) {
            (ComparisonKind::Pipes | ComparisonKind::PipeGenerators, _) => Role::Pipes,
            (ComparisonKind::Clients, _) => Role::Client,
            (ComparisonKind::Bridges, _) => Role::Bridge,
            (ComparisonKind::Commands, _) => Role::Command,
            _ if self.is_counted() && self.security == Security::None => Role::Counted,
            _ if self.is_counted() => Role::CountedTls,
            (ComparisonKind::Gateways | ComparisonKind::GatewaysBeforeClosing, _) if self.is_http2 => {
                Role::Http2Gateway
            }
            (ComparisonKind::Gateways | ComparisonKind::GatewaysBeforeClosing, _) => Role::Gateway,
            (_, Request::Mcp(_)) => Role::Mcp,
            (_, Request::Get(..)) if self.is_http2 => Role::Http2,
            (_, Request::Get(..)) if self.security != Security::None => Role::Tls,
            (_, Request::Get(..)) => Role::Http,
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

    /// The command that makes this load, for a measured time of `duration`; the address is that of the
    /// server.
    pub(crate) fn command(&self, duration: Duration) -> String {
        match (self.between, self.amount) {
            (ComparisonKind::Clients, _) => {
                let seconds = whole_seconds(duration);
                return format!(
                    "CLIENT --call http://ADDRESS/mcp --in-flight {} --seconds {seconds}",
                    self.connections
                );
            }
            (ComparisonKind::Commands, Amount::Requests(runs, _)) => {
                return format!("{runs} runs of COMMAND");
            }
            _ => {}
        }
        let mut words = match self.request {
            Request::Get(target, _) => {
                let scheme = if self.security == Security::None { "http" } else { "https" };
                vec![format!("thruway bench http '{scheme}://ADDRESS{target}'")]
            }
            Request::Mcp(operation) => vec![self.mcp_command(operation)],
        };
        if self.between.is_on_pipes() {
            words.extend((self.pipeline > 1).then(|| format!("--window {}", self.pipeline)));
        } else {
            words.push(format!("-c {}", self.connections));
            let depth = if self.is_http2 { "--http2 --streams" } else { "--pipeline" };
            words.extend((self.pipeline > 1).then(|| format!("{depth} {}", self.pipeline)));
            words.extend((!self.is_persistent).then(|| "--no-keep-alive".to_owned()));
            words.extend(self.security.options().map(str::to_owned));
        }
        words.extend(self.era.map(|era| format!("--era {}", revision_of(era).as_str())));
        words.extend(self.rate.map(|rate| format!("--rate {rate}")));
        words.push(match self.amount {
            Amount::Time => format!("-d {}ms", duration.as_millis()),
            Amount::Requests(requests, _) => format!("-n {requests}"),
        });
        if self.between.is_on_pipes() {
            words.push("-- SERVER".to_owned());
        }
        words.join(" ")
    }

    fn mcp_command(&self, operation: Operation) -> String {
        let target = if self.between.is_on_pipes() { "" } else { " http://ADDRESS/mcp" };
        let asked = match operation {
            Operation::Ping => "-o ping",
            Operation::Echo => "--tool echo",
            Operation::Add => "--tool add --arguments '{\"a\": 5, \"b\": 3}'",
            Operation::Read => "-o read --uri example://hello",
            Operation::Tools => "-o list",
            Operation::Resources => "-o resources",
            Operation::Prompts => "-o prompts",
        };
        format!("thruway bench mcp{target} {asked}")
    }
}

/// Returns the newest revision of an era.
pub(crate) const fn revision_of(era: Era) -> Revision {
    match era {
        Era::Modern => Revision::LATEST,
        Era::Legacy => Revision::LATEST_LEGACY,
    }
}

/// Returns a duration in seconds, at least one, for programs that count in whole seconds.
pub(crate) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs().max(1)
}

/// A server on our SDK, which is ours in some cases and stands behind bridges.
pub(crate) const OUR_SDK: &str = "mcp-on-thruway";

/// Number of connections from which a case counts as crowded.
const CROWD: u32 = 10_000;
