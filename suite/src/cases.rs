//! The loads of the suite, as a table: what is asked, on how many connections, how much of it.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::gateway::{self, SIZES};
use thruway_bench::McpOperation;
use thruway_bench::McpServerFacts;
use thruway_bench::{Era, FoundTool};

/// A workload, in the order in which reports tell of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// W1: small answers on persistent connections.
    Plaintext,
    /// W2: the same, several requests sent before an answer is read.
    Pipelining,
    /// W3: connections that persist against a connection for each request.
    #[serde(rename = "keep-alive")]
    Persistence,
    /// W4: messages of MCP over HTTP.
    McpHttp,
    /// W5: the same over the standard input and output.
    McpStdio,
    /// W6: in front of other servers.
    Gateway,
    /// W7: ten thousand connections.
    Connections,
    /// W8: connections in TLS, and handshakes.
    Tls,
    /// W9: streams of HTTP/2, to servers and through gateways.
    Http2,
}

/// One load of one workload, made on several candidates in turn.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Case {
    /// The workload it belongs to.
    pub(crate) workload: Workload,
    /// Its name in reports; each has its own.
    pub(crate) name: String,
    /// What is asked.
    pub(crate) request: Request,
    /// Connections at the same time; of no concern over pipes.
    pub(crate) connections: u32,
    /// Requests that are unanswered on a connection, or on a pipe, at the same time: over HTTP/2, streams.
    pub(crate) pipeline: u16,
    /// Whether TLS is spoken.
    pub(crate) security: Security,
    /// Whether HTTP/2 is spoken, without asking: TLS is a workload of its own.
    pub(crate) is_http2: bool,
    /// Whether a connection has more than one request.
    pub(crate) is_persistent: bool,
    /// Requests a second in an open loop; nothing in a closed one.
    pub(crate) rate: Option<f64>,
    /// How much is measured at a time.
    pub(crate) amount: Amount,
    /// Between what the comparison is.
    pub(crate) between: Between,
    /// Where it happens, and what else meanwhile.
    pub(crate) circumstance: Circumstance,
    /// Who takes part besides ours.
    pub(crate) peers: Peers,
    /// What is left out first when time is short: the highest. 0 has what a workload is known by.
    pub(crate) rank: u8,
}

/// Whether TLS is spoken, and how connections begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Security {
    /// It is not.
    None,
    /// Sessions are resumed.
    Resumed,
    /// Each handshake is a full one.
    Full,
}

/// What is asked of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// GET of this target, whose answer has so many octets of content.
    Get(&'static str, u64),
    /// A message of MCP.
    Mcp(Operation),
}

/// An operation of MCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

/// How much is measured at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Amount {
    /// As long as the suite says for each.
    Time,
    /// So many requests, which take about so long.
    Requests(u64, Duration),
}

/// What is compared in a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Between {
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
}

impl Between {
    /// Whether the server is the same for all candidates.
    pub(crate) const fn is_about_generators(self) -> bool {
        matches!(self, Self::Generators | Self::PipeGenerators)
    }

    const fn is_on_pipes(self) -> bool {
        matches!(self, Self::Pipes | Self::PipeGenerators)
    }
}

/// Where a load happens, and what else meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Circumstance {
    /// The server has a core of its own, and nobody touches it.
    Usual,
    /// The server, what stands behind it and the load generator share all cores.
    SharedCores,
    /// Our server is told again and again that its config has changed; another one of ours is left alone.
    Reloads,
}

/// Who takes part in a case besides ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peers {
    /// All that can, but for those that take part only where they are named.
    All,
    /// The same, and those of these names.
    AllAnd(&'static [&'static str]),
    /// Those of these names.
    Only(&'static [&'static str]),
    /// Nobody.
    None,
}

impl Workload {
    /// Every workload.
    pub(crate) const ALL: [Self; 9] = [
        Self::Plaintext,
        Self::Pipelining,
        Self::Persistence,
        Self::McpHttp,
        Self::McpStdio,
        Self::Gateway,
        Self::Connections,
        Self::Tls,
        Self::Http2,
    ];

    /// What it is called on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "plaintext",
            Self::Pipelining => "pipelining",
            Self::Persistence => "keep-alive",
            Self::McpHttp => "mcp-http",
            Self::McpStdio => "mcp-stdio",
            Self::Gateway => "gateway",
            Self::Connections => "connections",
            Self::Tls => "tls",
            Self::Http2 => "http2",
        }
    }

    /// What it is called in reports.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Plaintext => "W1: small answers on persistent connections",
            Self::Pipelining => "W2: with and without pipelining",
            Self::Persistence => "W3: with and without persistence",
            Self::McpHttp => "W4: messages of MCP over HTTP",
            Self::McpStdio => "W5: messages of MCP over pipes, and over HTTP",
            Self::Gateway => "W6: in front of other servers",
            Self::Connections => "W7: ten thousand connections",
            Self::Tls => "W8: TLS",
            Self::Http2 => "W9: HTTP/2",
        }
    }
}

impl Operation {
    /// Every operation, in the order of reports.
    pub(crate) const ALL: [Self; 7] =
        [Self::Ping, Self::Echo, Self::Add, Self::Read, Self::Tools, Self::Resources, Self::Prompts];

    /// What it is called in reports.
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
    /// What is asked for on the command line. Not all peers know key exchanges that withstand quantum computers.
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
            name: name.into(),
            request,
            connections,
            pipeline: 1,
            security: Security::None,
            is_http2: false,
            is_persistent: true,
            rate: None,
            amount: Amount::Time,
            between: Between::Servers,
            circumstance: Circumstance::Usual,
            peers: Peers::All,
            rank: 0,
        }
    }

    /// Whether so many connections are held that what they take of the server's memory is of interest.
    pub(crate) const fn holds_connections(&self) -> bool {
        self.is_crowded() && self.rate.is_some()
    }

    /// Whether it has ten thousand connections, which take their time.
    pub(crate) const fn is_crowded(&self) -> bool {
        self.connections >= CROWD
    }

    /// The command that makes this load, for a measured time of `duration`; the address is that of the server.
    pub(crate) fn command(&self, duration: Duration) -> String {
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

/// The cases of these workloads, in the order in which they run.
pub(crate) fn cases(workloads: &[Workload]) -> Vec<Case> {
    let all = [
        plaintext(),
        pipelining(),
        persistence(),
        mcp_http(),
        mcp_stdio(),
        gateway::cases(),
        connections(),
        tls(),
        http2(),
    ];
    all.into_iter().flatten().filter(|case| workloads.contains(&case.workload)).collect()
}

const PLAINTEXT: Request = Request::Get("/plaintext", 13);

fn plaintext() -> Vec<Case> {
    let case = |connections: u32| {
        let rank = match connections {
            MANY => 0,
            16 => 1,
            _ => 2,
        };
        let name = format!("plaintext c={connections}");
        Case { rank, ..Case::new(Workload::Plaintext, name, PLAINTEXT, connections) }
    };
    let mut cases: Vec<_> = [1, 16, 64, MANY, 1000].map(case).into();
    cases.extend([16, MANY].map(|connections| generators(&case(connections))));
    cases
}

fn pipelining() -> Vec<Case> {
    let case = |pipeline: u16| {
        let name = format!("pipelining depth {pipeline}");
        let rank = u8::from(pipeline != 16);
        let peers = Peers::AllAnd(&["axum-flush"]);
        Case { pipeline, peers, rank, ..Case::new(Workload::Pipelining, name, PLAINTEXT, MANY) }
    };
    let mut cases: Vec<_> = [1, 16, 100].map(case).into();
    cases.push(generators(&case(16)));
    cases
}

/// The same load, made by ours and by other load generators.
fn generators(case: &Case) -> Case {
    let name = format!("{}, by other load generators", case.name);
    Case { name, between: Between::Generators, peers: Peers::All, rank: 2, ..case.clone() }
}

fn persistence() -> Vec<Case> {
    let case = |name: &str, is_persistent, about| {
        let amount = Amount::Requests(50_000, Duration::from_millis(about));
        let case = Case::new(Workload::Persistence, name, PLAINTEXT, 1000);
        Case { is_persistent, amount, ..case }
    };
    let with = case("keep-alive with -k", true, 700);
    let without = case("keep-alive without -k", false, 2500);
    let checks = [&with, &without].map(generators);
    [with, without].into_iter().chain(checks).collect()
}

fn mcp_http() -> Vec<Case> {
    let case = |operation: Operation, connections| {
        let name = format!("mcp {} c={connections}", operation.label());
        Case::new(Workload::McpHttp, name, Request::Mcp(operation), connections)
    };
    let operation = |operation: Operation| {
        // What is in resources, prompts and lists of tools is each server's own.
        let peers = match operation {
            Operation::Ping | Operation::Echo | Operation::Add => Peers::All,
            _ => Peers::None,
        };
        Case { peers, rank: 1, ..case(operation, 1) }
    };
    let wide = |connections: u32| {
        let (peers, rank) = match connections {
            16 => (Peers::All, 0),
            32 => (Peers::All, 1),
            _ => (Peers::Only(&["rmcp"]), 2),
        };
        Case { peers, rank, ..case(Operation::Echo, connections) }
    };
    let mut cases: Vec<_> = Operation::ALL.map(operation).into();
    cases.extend([2, 4, 8, 10, 16, 32, 50, 100].map(wide));
    let name = "mcp tools/call echo c=1, a connection for each request";
    let rank = 1;
    cases.push(Case { name: name.to_owned(), is_persistent: false, rank, ..case(Operation::Echo, 1) });
    cases
}

fn mcp_stdio() -> Vec<Case> {
    let case = |name: String, operation: Operation| {
        let case = Case::new(Workload::McpStdio, name, Request::Mcp(operation), 1);
        Case { between: Between::Pipes, peers: Peers::None, ..case }
    };
    let operation = |operation: Operation| {
        let rank = u8::from(operation != Operation::Echo);
        Case { rank, ..case(format!("stdio {}", operation.label()), operation) }
    };
    let counted = |requests: u64| {
        let amount = Amount::Requests(requests, Duration::from_millis(requests / 20 + 10));
        Case {
            amount,
            rank: 2,
            ..case(format!("stdio tools/call echo, {requests} requests"), Operation::Echo)
        }
    };
    let window = |pipeline: u16| {
        let name = format!("stdio tools/call echo, window {pipeline}");
        Case { pipeline, peers: Peers::All, rank: 1, ..case(name, Operation::Echo) }
    };
    let mut cases: Vec<_> = Operation::ALL.map(operation).into();
    cases.extend([100, 1000, 5000].map(counted));
    cases.extend([1, 16, 64].map(window));
    cases.extend([1, 16].map(|pipeline| {
        let case = window(pipeline);
        let name = format!("{}, by a hand-written loop", case.name);
        Case { name, between: Between::PipeGenerators, rank: 2, ..case }
    }));
    cases
}

fn connections() -> Vec<Case> {
    let case = |name: &str, connections, rate: Option<f64>| {
        let case = Case::new(Workload::Connections, name, PLAINTEXT, connections);
        let rank = u8::from(rate.is_none());
        Case { rate, rank, peers: Peers::Only(&["nginx", "haproxy", "h2o", "hyper", "nethttp"]), ..case }
    };
    vec![
        // Each connection is used while it warms up.
        case("connections held c=10000", CROWD, Some(5000.0)),
        case("connections busy c=100", 100, None),
        case("connections busy c=10000", CROWD, None),
    ]
}

fn tls() -> Vec<Case> {
    let case = |name: &str, (_, target, octets): (&str, &'static str, u64), connections| Case {
        security: Security::Resumed,
        peers: Peers::Only(&["nginx", "haproxy"]),
        ..Case::new(
            Workload::Tls,
            format!("tls {name} c={connections}"),
            Request::Get(target, octets),
            connections,
        )
    };
    let [small, medium, large] = SIZES;
    let handshakes = |name: &str, security| Case { security, is_persistent: false, ..case(name, small, 32) };
    let two_octets = case("2 B", small, 64);
    vec![
        generators(&two_octets),
        two_octets,
        case("4 KB", medium, 64),
        Case { rank: 1, peers: Peers::Only(&["nginx"]), ..case("1 MB", large, 16) },
        handshakes("full handshakes", Security::Full),
        handshakes("resumed handshakes", Security::Resumed),
    ]
}

fn http2() -> Vec<Case> {
    let case = |name: String, (_, target, octets): (&str, &'static str, u64)| Case {
        is_http2: true,
        pipeline: 32,
        peers: Peers::Only(&["nginx", "haproxy", "h2o", "hyper"]),
        ..Case::new(Workload::Http2, name, Request::Get(target, octets), 8)
    };
    let [small, medium, _] = SIZES;
    let server = |size: (&'static str, &'static str, u64)| case(format!("http2 {} c=8 m=32", size.0), size);
    let gateway = |size: (&'static str, &'static str, u64)| Case {
        between: Between::Gateways,
        ..case(format!("http2 gateway {} c=8 m=32", size.0), size)
    };
    vec![generators(&server(small)), server(small), server(medium), gateway(small), gateway(medium)]
}

/// Connections of W1 and W2.
const MANY: u32 = 256;

/// Connections of W7.
const CROWD: u32 = 10_000;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own_and_a_workload_that_chooses_it() {
        let all = cases(&Workload::ALL);
        let names: BTreeSet<_> = all.iter().map(|case| &case.name).collect();
        assert_eq!(names.len(), all.len());
        for workload in Workload::ALL {
            let chosen = cases(&[workload]);
            assert!(!chosen.is_empty() && chosen.iter().all(|case| case.workload == workload));
        }
    }

    #[test]
    fn every_workload_has_a_case_that_is_left_out_last() {
        for workload in Workload::ALL {
            assert!(cases(&[workload]).iter().any(|case| case.rank == 0), "{}", workload.name());
        }
    }

    #[test]
    fn a_case_says_the_command_that_makes_it() {
        let second = Duration::from_secs(1);
        let command = |name: &str| {
            let all = cases(&Workload::ALL);
            all.iter().find(|case| case.name == name).unwrap().command(second)
        };
        assert_eq!(
            command("pipelining depth 16"),
            "thruway bench http 'http://ADDRESS/plaintext' -c 256 --pipeline 16 -d 1000ms"
        );
        assert_eq!(
            command("keep-alive without -k"),
            "thruway bench http 'http://ADDRESS/plaintext' -c 1000 --no-keep-alive -n 50000"
        );
        assert_eq!(
            command("tls full handshakes c=32"),
            "thruway bench http 'https://ADDRESS/ok' -c 32 --no-keep-alive --insecure --classical-key-exchange --full-handshakes -d 1000ms"
        );
        assert_eq!(
            command("http2 4 KB c=8 m=32"),
            "thruway bench http 'http://ADDRESS/download?bytes=4096' -c 8 --http2 --streams 32 -d 1000ms"
        );
        assert_eq!(
            command("stdio tools/call echo, window 16"),
            "thruway bench mcp --tool echo --window 16 -d 1000ms -- SERVER"
        );
        assert_eq!(
            command("mcp resources/read c=1"),
            "thruway bench mcp http://ADDRESS/mcp -o read --uri example://hello -c 1 -d 1000ms"
        );
    }
}
