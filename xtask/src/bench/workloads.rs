//! The workloads as a table of cases: one load each.

use anyhow::ensure;
use serde::Serialize;
use thruway_bench::Revision;

use super::request::Request;
use super::server::{CLIENT_CORE, SERVER_CORE};

/// What to run, as said on the command line.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum Selection {
    /// W1, by `thruway-suite`: small answers on persistent connections.
    Plaintext,
    /// W2, by the suite: the same, requests pipelined.
    Pipelining,
    /// W3, by the suite: connection churn against persistent connections.
    KeepAlive,
    /// W6, by the suite: backends behind gateways.
    Gateway,
    /// W7, by the suite: ten thousand connections, held and busy.
    Connections,
    /// The whole suite, beside all peers.
    All,
    /// By `wrk`: axum on our engine against axum on hyper.
    Axum,
    /// W4, by `wrk`: messages of MCP over HTTP, beside SDKs that the suite does not know.
    Mcp,
    /// W5: the same over the standard input and output.
    McpStdio,
    /// A million messages of MCP, after which no memory may be missing.
    McpSoak,
    /// Calls by clients of MCP, each to a server of its own library.
    McpClient,
    /// Bridges from HTTP to a server of MCP on standard input and output.
    McpBridge,
    /// The command line, from its start to its end.
    McpCommand,
}

impl Selection {
    /// What it is called in the suite, if that measures it.
    pub(super) const fn in_suite(self) -> Option<&'static str> {
        match self {
            Self::Plaintext => Some("plaintext"),
            Self::Pipelining => Some("pipelining"),
            Self::KeepAlive => Some("keep-alive"),
            Self::Gateway => Some("gateway"),
            Self::Connections => Some("connections"),
            Self::All => Some("all"),
            Self::Axum
            | Self::Mcp
            | Self::McpStdio
            | Self::McpSoak
            | Self::McpClient
            | Self::McpBridge
            | Self::McpCommand => None,
        }
    }

    /// The workloads whose peers take part, in the order in which they run.
    pub(super) const fn workloads(self) -> &'static [Workload] {
        match self {
            Self::Plaintext | Self::Pipelining | Self::Connections => &[Workload::General],
            Self::KeepAlive => &[Workload::Churn],
            Self::Gateway => &[Workload::Gateway],
            Self::All => {
                &[Workload::General, Workload::Churn, Workload::Gateway, Workload::Mcp, Workload::McpStdio]
            }
            Self::Axum => &[Workload::Axum],
            Self::Mcp => &[Workload::Mcp, Workload::McpLegacy],
            Self::McpStdio => &[Workload::McpStdio, Workload::McpStdioLegacy],
            Self::McpSoak => &[Workload::McpSoak],
            Self::McpClient => &[Workload::McpClient],
            Self::McpBridge => &[Workload::McpBridge, Workload::McpBridgeModern],
            Self::McpCommand => &[Workload::McpCommand],
        }
    }
}

/// A workload, with the cases of [`CASES`] that name it; the first three are the suite's, and have none here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(super) enum Workload {
    /// W1, W2 and W7.
    General,
    /// W3, in which no part has who reads no `Connection`.
    Churn,
    /// W6.
    Gateway,
    Axum,
    Mcp,
    McpLegacy,
    McpStdio,
    McpStdioLegacy,
    McpSoak,
    McpClient,
    /// In the legacy era, which every bridge knows.
    McpBridge,
    McpBridgeModern,
    McpCommand,
}

impl Workload {
    /// Name of the row of peers that is ours here.
    pub(super) const fn ours(self) -> &'static str {
        match self {
            Self::General | Self::Churn | Self::Gateway => "thruway",
            Self::Axum => "axum-on-thruway",
            Self::Mcp
            | Self::McpLegacy
            | Self::McpStdio
            | Self::McpStdioLegacy
            | Self::McpSoak
            | Self::McpClient => "mcp-on-thruway",
            Self::McpBridge | Self::McpBridgeModern => "thruway-bridge",
            Self::McpCommand => "thruway-call",
        }
    }
}

/// One load of one workload.
#[derive(Serialize)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) workload: Workload,
    pub(super) load: Load,
    /// What to know when reading its figures.
    pub(super) note: &'static str,
}

/// What is done to a server in one run.
#[derive(Clone, Copy, Serialize)]
pub(super) enum Load {
    /// `wrk` on so many connections, each sending `depth` requests before it reads.
    Wrk { connections: u32, depth: u32 },
    /// `wrk` on so many connections, each with one message at a time.
    Mcp { request: Request, connections: u32 },
    /// A child process that is sent messages on its standard input, so many of them unanswered at a time.
    Stdio { request: Request, window: u32 },
    /// All messages of MCP in turn by `wrk` until there were at least so many.
    Soak { requests: u64, connections: u32 },
    /// A client that has so many calls in flight, on this core.
    Calls { in_flight: u32, core: u32 },
    /// A bridge that is called on so many connections.
    Bridge {
        #[serde(skip)]
        revision: Revision,
        connections: u32,
    },
    /// A command that is run so many times.
    Command { runs: u32 },
}

impl Load {
    /// The request that the load is made of.
    pub(super) const fn request(self) -> Request {
        match self {
            Self::Mcp { request, .. } | Self::Stdio { request, .. } => request,
            Self::Soak { .. } | Self::Bridge { .. } | Self::Command { .. } => Request::CallTool,
            Self::Wrk { .. } | Self::Calls { .. } => Request::Plaintext,
        }
    }

    /// The core of what makes the load.
    pub(super) const fn core_of_client(self) -> u32 {
        if let Self::Calls { core, .. } = self { core } else { CLIENT_CORE }
    }

    /// About how long a run takes, starting and stopping included.
    pub(super) fn estimated_seconds(self, seconds: u32) -> f64 {
        match self {
            Self::Wrk { .. } | Self::Mcp { .. } | Self::Stdio { .. } => f64::from(seconds) + 0.5,
            Self::Soak { .. } => 20.0,
            Self::Calls { .. } => f64::from(seconds) + 1.0,
            Self::Bridge { .. } => f64::from(seconds) + 2.5,
            Self::Command { runs } => f64::from(runs) * 0.02,
        }
    }
}

/// Connections of axum's cases.
const CONNECTIONS: u32 = 256;

const PIPELINED_NOTE: &str = "wrk takes the time of a whole batch for that of each request: its latencies mean \
     nothing here and are left out.";
const STDIO_NOTE: &str = "Each message has an id of its own; each answer is compared octet by octet with the first, its id \
     apart, and every id must be answered. Sequential, one by the rate is the mean round trip.";
const SOAK_NOTE: &str =
    "Growth of the anonymous memory from the end of a first round of all messages to the end of the last.";
const CALLS_NOTE: &str = "The client is on the core of the load generator, and each has one thread. `rmcp`'s client keeps its connections here; \
     by default, it opens one for each request. `ceiling` is no server of MCP: it stands for what the machine allows, loaded by `wrk` on as \
     many connections. One exchange at a time across cores, that is how fast an idle core is woken.";
const ONE_CORE_NOTE: &str = "Client and server share a core, so that neither waits for the other's to be woken: one by the rate is what a call costs in all. \
     `ceiling` is loaded by `wrk` on the same core.";
const BRIDGE_NOTE: &str = "Behind each bridge stands `mcp-on-thruway` on stdio, on the core of the bridge, which `CPU per request` includes. The load is \
     that of `thruway bench mcp`: in the legacy era, which every bridge knows, a session for each connection.";
const COMMAND_NOTE: &str = "The command talks to `thruway serve` on the other core.";

/// All cases in the order in which they run.
pub(super) const CASES: &[Case] = &[
    axum("axum depth 1", 1, ""),
    axum("axum depth 16", 16, PIPELINED_NOTE),
    mcp("mcp call c=1", Workload::Mcp, Request::CallTool, 1),
    mcp("mcp call c=16", Workload::Mcp, Request::CallTool, 16),
    mcp("mcp call c=32", Workload::Mcp, Request::CallTool, 32),
    mcp("mcp list c=16", Workload::Mcp, Request::ListTools, 16),
    mcp("mcp legacy call c=16", Workload::McpLegacy, Request::LegacyCallTool, 16),
    mcp("mcp legacy ping c=16", Workload::McpLegacy, Request::LegacyPing, 16),
    stdio("mcp stdio call w=1", Workload::McpStdio, Request::CallTool, 1),
    stdio("mcp stdio call w=64", Workload::McpStdio, Request::CallTool, 64),
    stdio("mcp stdio list w=1", Workload::McpStdio, Request::ListTools, 1),
    stdio("mcp stdio legacy call w=1", Workload::McpStdioLegacy, Request::LegacyCallTool, 1),
    stdio("mcp stdio legacy call w=64", Workload::McpStdioLegacy, Request::LegacyCallTool, 64),
    Case {
        name: "mcp soak",
        workload: Workload::McpSoak,
        load: Load::Soak { requests: 1_000_000, connections: 16 },
        note: SOAK_NOTE,
    },
    calls("mcp client sequential", 1),
    Case {
        name: "mcp client sequential, one core",
        workload: Workload::McpClient,
        load: Load::Calls { in_flight: 1, core: SERVER_CORE },
        note: ONE_CORE_NOTE,
    },
    calls("mcp client 32 in flight", 32),
    bridge("mcp bridge c=1", Workload::McpBridge, 1),
    bridge("mcp bridge c=16", Workload::McpBridge, 16),
    bridge("mcp bridge modern c=16", Workload::McpBridgeModern, 16),
    Case {
        name: "mcp command",
        workload: Workload::McpCommand,
        load: Load::Command { runs: 50 },
        note: COMMAND_NOTE,
    },
];

/// The cases of a selection; of these only those that are asked for by their names or a part of them, if any are.
///
/// # Errors
/// A text that is in no name.
pub(super) fn select(selection: Selection, asked: &[String]) -> anyhow::Result<Vec<&'static Case>> {
    let of_selection = || CASES.iter().filter(|case| selection.workloads().contains(&case.workload));
    for text in asked {
        let names = || of_selection().map(|case| case.name).collect::<Vec<_>>().join("`, `");
        let is_known = of_selection().any(|case| case.name.contains(text.as_str()));
        ensure!(is_known, "no case is called `{text}`\n\nhint: there are `{}`", names());
    }
    let is_asked_for = |case: &Case, text: &str| {
        let is_name = of_selection().any(|case| case.name == text);
        if is_name { case.name == text } else { case.name.contains(text) }
    };
    let is_selected = |case: &&Case| asked.is_empty() || asked.iter().any(|text| is_asked_for(case, text));
    Ok(of_selection().filter(is_selected).collect())
}

const fn axum(name: &'static str, depth: u32, note: &'static str) -> Case {
    let load = Load::Wrk { connections: CONNECTIONS, depth };
    Case { name, workload: Workload::Axum, load, note }
}

const fn mcp(name: &'static str, workload: Workload, request: Request, connections: u32) -> Case {
    Case { name, workload, load: Load::Mcp { request, connections }, note: "" }
}

const fn stdio(name: &'static str, workload: Workload, request: Request, window: u32) -> Case {
    Case { name, workload, load: Load::Stdio { request, window }, note: STDIO_NOTE }
}

const fn calls(name: &'static str, in_flight: u32) -> Case {
    let load = Load::Calls { in_flight, core: CLIENT_CORE };
    Case { name, workload: Workload::McpClient, load, note: CALLS_NOTE }
}

const fn bridge(name: &'static str, workload: Workload, connections: u32) -> Case {
    let is_modern = matches!(workload, Workload::McpBridgeModern);
    let revision = if is_modern { Revision::LATEST } else { Revision::LATEST_LEGACY };
    let load = Load::Bridge { revision, connections };
    Case { name, workload, load, note: BRIDGE_NOTE }
}

#[cfg(test)]
mod tests {
    use super::{Selection, select};

    #[test]
    fn cases_are_selected_by_a_part_of_their_names() {
        let names = |asked: &[&str]| {
            let asked: Vec<_> = asked.iter().copied().map(str::to_owned).collect();
            select(Selection::Mcp, &asked).map(|cases| cases.iter().map(|case| case.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["mcp call c=1"]).unwrap(), ["mcp call c=1"]);
        assert_eq!(names(&["call c=3", "ping"]).unwrap(), ["mcp call c=32", "mcp legacy ping c=16"]);
        assert_eq!(names(&[]).unwrap().len(), 6);
        assert!(names(&["plaintext"]).is_err());
    }
}
