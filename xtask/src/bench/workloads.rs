//! The workloads as a table of cases: one load each.

use anyhow::ensure;
use serde::Serialize;
use thruway_bench::Revision;

use super::request::Request;

/// What to run, as said on the command line.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum Selection {
    /// W1: small answers on persistent connections.
    Plaintext,
    /// W2: the same, requests pipelined.
    Pipelining,
    /// W3: connection churn against persistent connections.
    KeepAlive,
    /// W7: ten thousand connections, idle and busy.
    Connections,
    /// axum on our engine against axum on hyper.
    Axum,
    /// W4: messages of MCP, over HTTP.
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
    /// W6: backends behind gateways.
    Gateway,
    /// All of them.
    All,
}

impl Selection {
    /// The workloads it stands for, in the order in which they run.
    pub(super) fn workloads(self) -> &'static [Workload] {
        match self {
            Self::Plaintext => &[Workload::Plaintext],
            Self::Pipelining => &[Workload::Pipelining],
            Self::KeepAlive => &[Workload::KeepAlive],
            Self::Connections => &[Workload::Connections],
            Self::Axum => &[Workload::Axum],
            Self::Mcp => &[Workload::Mcp, Workload::McpLegacy],
            Self::McpStdio => &[Workload::McpStdio, Workload::McpStdioLegacy],
            Self::McpSoak => &[Workload::McpSoak],
            Self::McpClient => &[Workload::McpClient],
            Self::McpBridge => &[Workload::McpBridge, Workload::McpBridgeModern],
            Self::McpCommand => &[Workload::McpCommand],
            Self::Gateway => GATEWAYS,
            Self::All => &[
                Workload::Plaintext,
                Workload::Pipelining,
                Workload::KeepAlive,
                Workload::Connections,
                Workload::Axum,
                Workload::Mcp,
                Workload::McpLegacy,
                Workload::McpStdio,
                Workload::McpStdioLegacy,
                Workload::McpSoak,
                Workload::McpClient,
                Workload::McpBridge,
                Workload::McpBridgeModern,
                Workload::McpCommand,
                Workload::Gateway,
                Workload::GatewayClosing,
                Workload::GatewayIdle,
                Workload::GatewayBusy,
                Workload::GatewayReload,
                Workload::GatewaySettings,
                Workload::GatewaySingle,
            ],
        }
    }
}

/// A workload, with the cases of [`CASES`] that name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(super) enum Workload {
    Plaintext,
    Pipelining,
    KeepAlive,
    Connections,
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
    /// W6 (b): a fast backend with persistent connections.
    Gateway,
    /// W6 (a): a backend that closes after each response.
    GatewayClosing,
    /// Ten thousand clients that do nothing.
    GatewayIdle,
    /// Ten thousand clients that make requests.
    GatewayBusy,
    /// The config is read again and again.
    GatewayReload,
    /// Our own gateway with a config as it is in use, beside the smallest.
    GatewaySettings,
    /// The same with one setting each.
    GatewaySingle,
}

const GATEWAYS: &[Workload] = &[
    Workload::Gateway,
    Workload::GatewayClosing,
    Workload::GatewayIdle,
    Workload::GatewayBusy,
    Workload::GatewayReload,
    Workload::GatewaySettings,
    Workload::GatewaySingle,
];

impl Workload {
    /// Name of the row of peers that is ours here.
    pub(super) fn ours(self) -> &'static str {
        match self {
            Self::Axum => "axum-on-thruway",
            Self::Mcp
            | Self::McpLegacy
            | Self::McpStdio
            | Self::McpStdioLegacy
            | Self::McpSoak
            | Self::McpClient => "mcp-on-thruway",
            Self::McpBridge | Self::McpBridgeModern => "thruway-bridge",
            Self::McpCommand => "thruway-call",
            Self::Gateway
            | Self::GatewayClosing
            | Self::GatewayIdle
            | Self::GatewayBusy
            | Self::GatewayReload
            | Self::GatewaySettings
            | Self::GatewaySingle => "thruway-gateway",
            _ => "thruway",
        }
    }
}

/// One load of one workload.
#[derive(Serialize)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) workload: Workload,
    pub(super) load: Load,
    /// Without a target, so only run with `--full` or when asked for by name.
    pub(super) full_only: bool,
    /// What to know when reading its figures.
    pub(super) note: &'static str,
}

/// What is done to a server in one run.
#[derive(Clone, Copy, Serialize)]
pub(super) enum Load {
    /// `wrk` on so many connections, each sending `depth` requests before it reads, for `stretch` times the seconds
    /// of a run.
    Wrk { connections: u32, depth: u32, stretch: u32 },
    /// `ab`, with or without `-k`.
    Ab { requests: u32, connections: u32, persistent: bool },
    /// `wrk` on so many connections, each with one message at a time.
    Mcp { request: Request, connections: u32 },
    /// Connections that made one request and now do nothing.
    Idle { connections: u32 },
    /// A child process that is sent messages on its standard input, so many of them unanswered at a time.
    Stdio { request: Request, window: u32 },
    /// A gateway with a backend.
    Gateway(GatewayLoad),
    /// All messages of MCP in turn by `wrk` until there were at least so many.
    Soak { requests: u64, connections: u32 },
    /// A client that has so many calls in flight.
    Calls { in_flight: u32 },
    /// A bridge that is called on so many connections.
    Bridge {
        #[serde(skip)]
        revision: Revision,
        connections: u32,
    },
    /// A command that is run so many times.
    Command { runs: u32 },
}

/// What is done to a gateway in one run.
#[derive(Clone, Copy, Serialize)]
pub(super) struct GatewayLoad {
    pub(super) request: Request,
    pub(super) connections: u32,
    pub(super) placement: Placement,
    pub(super) what: What,
}

/// What stands behind a gateway, and where.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Placement {
    /// A fast backend on the core of the load generator.
    Apart,
    /// Gateway, backend and load generator on both cores.
    Shared,
    /// A backend that closes after each response, on the core of the load generator.
    Closing,
}

/// What the clients of a gateway do, and those who operate it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum What {
    /// `wrk` makes requests.
    Requests,
    /// The same, while the config is read again and again.
    Reloads,
    /// The clients made one request and now do nothing.
    Idle,
}

impl GatewayLoad {
    /// How long it lasts, in runs.
    pub(super) const fn stretch(self) -> u32 {
        if self.connections >= MANY { MANY_STRETCH } else { 1 }
    }
}

impl Load {
    /// The request that the load is made of.
    pub(super) fn request(self) -> Request {
        match self {
            Self::Mcp { request, .. }
            | Self::Stdio { request, .. }
            | Self::Gateway(GatewayLoad { request, .. }) => request,
            Self::Soak { .. } | Self::Calls { .. } | Self::Bridge { .. } | Self::Command { .. } => {
                Request::CallTool
            }
            Self::Wrk { .. } | Self::Ab { .. } | Self::Idle { .. } => Request::Plaintext,
        }
    }

    /// About how long a run takes, starting and stopping included.
    pub(super) fn estimated_seconds(self, seconds: u32) -> f64 {
        match self {
            Self::Wrk { stretch, .. } => f64::from(seconds * stretch) + 0.5,
            Self::Mcp { .. } | Self::Stdio { .. } => f64::from(seconds) + 0.5,
            Self::Gateway(GatewayLoad { what: What::Idle, .. }) | Self::Idle { .. } => 3.0,
            Self::Gateway(GatewayLoad { what: What::Reloads, .. }) => f64::from(2 * seconds) + 1.0,
            Self::Gateway(load) => f64::from(seconds * load.stretch()) + 1.0,
            Self::Soak { .. } => 20.0,
            Self::Calls { .. } => f64::from(seconds) + 1.0,
            Self::Bridge { .. } => f64::from(seconds) + 2.5,
            Self::Command { runs } => f64::from(runs) * 0.02,
            Self::Ab { persistent: true, .. } => 1.0,
            Self::Ab { persistent: false, .. } => 2.5,
        }
    }
}

/// Connections of W1 and W2.
const CONNECTIONS: u32 = 256;

/// Connections of the large case of W7.
const MANY: u32 = 10_000;

/// How long that case runs, in runs: long enough for accepting the connections to weigh little.
const MANY_STRETCH: u32 = 3;

const PLAINTEXT_NOTE: &str = "";
const PIPELINED_NOTE: &str = "wrk takes the time of a whole batch for that of each request: its latencies mean \
     nothing here and are left out.";
const AB_NOTE: &str = "50,000 requests on 1,000 connections (HTTP/1.0). A failed request of any kind, or a connection \
     given up in between, makes the run a failure.";
const IDLE_NOTE: &str = "Growth over the process after its warm-up. Every connection made one request before, and \
     answered one more afterwards. Memory of the kernel is not in it.";
const STDIO_NOTE: &str = "Each message has an id of its own; each answer is compared octet by octet with the first, its id \
     apart, and every id must be answered. Sequential, one by the rate is the mean round trip.";
const GATEWAY_NOTE: &str = "The backend is `thruway serve` on the core of the load generator.";
const CLOSING_NOTE: &str = "The backend is an `asyncio` server that closes after each response, with a backlog of 4096, on the \
     core of the load generator, and the bottleneck. Listen overflows are those of the whole machine.";
const RELOAD_NOTE: &str = "SIGHUP every 200 ms. `p99 / usual` puts the p99 in relation to that of a run of the same server just before, without.";
const SETTINGS_NOTE: &str = "The peer is ours with more in its config. A rate of 0.85 of that of the smallest config is a ratio of 1.18 here.";
const SHARED_NOTE: &str = "Gateway, backend and load generator share both cores.";
const SOAK_NOTE: &str =
    "Growth of the anonymous memory from the end of a first round of all messages to the end of the last.";
const BUSY_GATEWAY_NOTE: &str = "CPU time includes accepting the connections. A process has 20,000 descriptors at most, so HAProxy has no more \
     than 8,000 connections to the backend; nginx cannot queue, and takes no part.";
const CALLS_NOTE: &str = "The client is on the core of the load generator, and each has one thread. `rmcp`'s client keeps its connections here; \
     by default, it opens one for each request.";
const BRIDGE_NOTE: &str = "Behind each bridge stands `mcp-on-thruway` on stdio, on the core of the bridge, which `CPU per request` includes. The load is \
     that of `thruway bench mcp`: in the legacy era, which every bridge knows, a session for each connection.";
const COMMAND_NOTE: &str = "The command talks to `thruway serve` on the other core.";
const BUSY_NOTE: &str = "CPU time includes accepting the connections.";

/// All cases in the order in which they run.
pub(super) const CASES: &[Case] = &[
    plaintext("plaintext c=1", 1, true),
    plaintext("plaintext c=16", 16, false),
    plaintext("plaintext c=64", 64, true),
    plaintext("plaintext c=256", CONNECTIONS, false),
    plaintext("plaintext c=1000", 1000, true),
    wrk("pipelining depth 16", Workload::Pipelining, CONNECTIONS, 16, PIPELINED_NOTE),
    wrk("pipelining depth 100", Workload::Pipelining, CONNECTIONS, 100, PIPELINED_NOTE),
    ab("keep-alive with -k", true),
    ab("keep-alive without -k", false),
    Case {
        name: "connections idle",
        workload: Workload::Connections,
        load: Load::Idle { connections: MANY },
        full_only: false,
        note: IDLE_NOTE,
    },
    wrk("connections c=100", Workload::Connections, 100, 1, BUSY_NOTE),
    Case {
        name: "connections c=10000",
        workload: Workload::Connections,
        load: Load::Wrk { connections: MANY, depth: 1, stretch: MANY_STRETCH },
        full_only: false,
        note: BUSY_NOTE,
    },
    wrk("axum depth 1", Workload::Axum, CONNECTIONS, 1, PLAINTEXT_NOTE),
    wrk("axum depth 16", Workload::Axum, CONNECTIONS, 16, PIPELINED_NOTE),
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
    gateway("gateway 2 B c=50", Request::Ok, 50),
    gateway("gateway 2 B c=200", Request::Ok, 200),
    gateway("gateway 2 B c=500", Request::Ok, 500),
    gateway("gateway 4 KB c=50", Request::Download4Kb, 50),
    gateway("gateway 4 KB c=200", Request::Download4Kb, 200),
    gateway("gateway 4 KB c=500", Request::Download4Kb, 500),
    gateway("gateway 1 MB c=50", Request::Download1Mb, 50),
    gateway("gateway 1 MB c=200", Request::Download1Mb, 200),
    gateway_case(
        "gateway 2 B c=200 shared",
        Workload::Gateway,
        GatewayLoad { placement: Placement::Shared, ..load_of_gateway(Request::Ok, 200) },
        SHARED_NOTE,
    ),
    gateway("gateway 2 B c=1", Request::Ok, 1),
    gateway_closing("gateway closing 2 B c=50", Request::Ok, 50),
    gateway_closing("gateway closing 2 B c=200", Request::Ok, 200),
    gateway_closing("gateway closing 2 B c=500", Request::Ok, 500),
    gateway_closing("gateway closing 4 KB c=50", Request::Download4Kb, 50),
    gateway_closing("gateway closing 4 KB c=200", Request::Download4Kb, 200),
    gateway_closing("gateway closing 4 KB c=500", Request::Download4Kb, 500),
    gateway_closing("gateway closing 1 MB c=50", Request::Download1Mb, 50),
    gateway_closing("gateway closing 1 MB c=200", Request::Download1Mb, 200),
    gateway_closing("gateway closing 1 MB c=500", Request::Download1Mb, 500),
    gateway_case(
        "gateway idle",
        Workload::GatewayIdle,
        GatewayLoad { what: What::Idle, ..load_of_gateway(Request::Ok, MANY) },
        IDLE_NOTE,
    ),
    gateway_case(
        "gateway 2 B c=10000",
        Workload::GatewayBusy,
        load_of_gateway(Request::Ok, MANY),
        BUSY_GATEWAY_NOTE,
    ),
    gateway_case(
        "gateway reload",
        Workload::GatewayReload,
        GatewayLoad { what: What::Reloads, ..load_of_gateway(Request::Ok, 200) },
        RELOAD_NOTE,
    ),
    gateway_case(
        "gateway realistic",
        Workload::GatewaySettings,
        load_of_gateway(Request::Ok, 200),
        SETTINGS_NOTE,
    ),
    Case {
        full_only: true,
        ..gateway_case(
            "gateway single settings",
            Workload::GatewaySingle,
            load_of_gateway(Request::Ok, 200),
            SETTINGS_NOTE,
        )
    },
    Case {
        name: "mcp soak",
        workload: Workload::McpSoak,
        load: Load::Soak { requests: 1_000_000, connections: 16 },
        full_only: false,
        note: SOAK_NOTE,
    },
    calls("mcp client sequential", 1),
    calls("mcp client 32 in flight", 32),
    bridge("mcp bridge c=1", Workload::McpBridge, 1),
    bridge("mcp bridge c=16", Workload::McpBridge, 16),
    bridge("mcp bridge modern c=16", Workload::McpBridgeModern, 16),
    Case {
        name: "mcp command",
        workload: Workload::McpCommand,
        load: Load::Command { runs: 50 },
        full_only: false,
        note: COMMAND_NOTE,
    },
];

/// The cases of a selection; of these only those that are asked for by their names or a part of them, if any are.
///
/// # Errors
/// A text that is in no name.
pub(super) fn select(
    selection: Selection,
    asked: &[String],
    full: bool,
) -> anyhow::Result<Vec<&'static Case>> {
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
    let is_selected = |case: &&Case| match asked {
        [] => full || !case.full_only,
        asked => asked.iter().any(|text| is_asked_for(case, text)),
    };
    Ok(of_selection().filter(is_selected).collect())
}

const fn plaintext(name: &'static str, connections: u32, full_only: bool) -> Case {
    let load = Load::Wrk { connections, depth: 1, stretch: 1 };
    Case { name, workload: Workload::Plaintext, load, full_only, note: PLAINTEXT_NOTE }
}

const fn wrk(
    name: &'static str,
    workload: Workload,
    connections: u32,
    depth: u32,
    note: &'static str,
) -> Case {
    Case { name, workload, load: Load::Wrk { connections, depth, stretch: 1 }, full_only: false, note }
}

const fn mcp(name: &'static str, workload: Workload, request: Request, connections: u32) -> Case {
    Case { name, workload, load: Load::Mcp { request, connections }, full_only: false, note: "" }
}

const fn stdio(name: &'static str, workload: Workload, request: Request, window: u32) -> Case {
    Case { name, workload, load: Load::Stdio { request, window }, full_only: false, note: STDIO_NOTE }
}

const fn calls(name: &'static str, in_flight: u32) -> Case {
    let load = Load::Calls { in_flight };
    Case { name, workload: Workload::McpClient, load, full_only: false, note: CALLS_NOTE }
}

const fn bridge(name: &'static str, workload: Workload, connections: u32) -> Case {
    let is_modern = matches!(workload, Workload::McpBridgeModern);
    let revision = if is_modern { Revision::LATEST } else { Revision::LATEST_LEGACY };
    let load = Load::Bridge { revision, connections };
    Case { name, workload, load, full_only: false, note: BRIDGE_NOTE }
}

const fn gateway(name: &'static str, request: Request, connections: u32) -> Case {
    gateway_case(name, Workload::Gateway, load_of_gateway(request, connections), GATEWAY_NOTE)
}

const fn gateway_closing(name: &'static str, request: Request, connections: u32) -> Case {
    let load = GatewayLoad { placement: Placement::Closing, ..load_of_gateway(request, connections) };
    gateway_case(name, Workload::GatewayClosing, load, CLOSING_NOTE)
}

const fn load_of_gateway(request: Request, connections: u32) -> GatewayLoad {
    GatewayLoad { request, connections, placement: Placement::Apart, what: What::Requests }
}

const fn gateway_case(name: &'static str, workload: Workload, load: GatewayLoad, note: &'static str) -> Case {
    Case { name, workload, load: Load::Gateway(load), full_only: false, note }
}

const fn ab(name: &'static str, persistent: bool) -> Case {
    let load = Load::Ab { requests: 50_000, connections: 1000, persistent };
    Case { name, workload: Workload::KeepAlive, load, full_only: false, note: AB_NOTE }
}

#[cfg(test)]
mod tests {
    use super::{Selection, select};

    #[test]
    fn cases_are_selected_by_a_part_of_their_names() {
        let names = |asked: &[&str], full| {
            let asked: Vec<_> = asked.iter().copied().map(str::to_owned).collect();
            select(Selection::Gateway, &asked, full)
                .map(|cases| cases.iter().map(|case| case.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["gateway 2 B c=50"], false).unwrap(), ["gateway 2 B c=50"]);
        assert_eq!(
            names(&["1 MB c=2"], false).unwrap(),
            ["gateway 1 MB c=200", "gateway closing 1 MB c=200"]
        );
        assert_eq!(names(&["single settings"], false).unwrap(), ["gateway single settings"]);
        assert!(!names(&[], false).unwrap().contains(&"gateway single settings"));
        assert!(names(&[], true).unwrap().contains(&"gateway single settings"));
        assert!(names(&["plaintext"], false).is_err());
    }
}
