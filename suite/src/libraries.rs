//! The cases beyond W1 to W9: libraries on our engine, MCP SDKs, clients, bridges and commands.

use std::time::Duration;

use thruway_bench::Era;

use crate::case::{Amount, Between, Case, Circumstance, Operation, Peers, Request, Workload};

/// Returns all of them, in the order in which they run.
pub(crate) fn cases() -> Vec<Case> {
    [axum(), sdks_over_http(), sdks_over_pipes(), soak(), clients(), bridges(), commands()].concat()
}

fn axum() -> Vec<Case> {
    let case = |pipeline: u16| Case {
        ours: "axum-on-thruway",
        pipeline,
        peers: Peers::Only(&["axum", "axum-flush"]),
        ..Case::new(Workload::Axum, format!("axum depth {pipeline}"), Request::Get("/plaintext", 13), 256)
    };
    [1, 16].map(case).into()
}

/// A case with a server on our SDK in our place.
fn sdk(workload: Workload, name: &str, operation: Operation, connections: u32) -> Case {
    Case { ours: OUR_SDK, ..Case::new(workload, name, Request::Mcp(operation), connections) }
}

fn sdks_over_http() -> Vec<Case> {
    let modern = |name: &str, operation, connections| Case {
        era: Some(Era::Modern),
        peers: Peers::Only(SDKS_AND_ECHO),
        ..sdk(Workload::McpSdks, name, operation, connections)
    };
    let legacy = |name: &str, operation| Case {
        era: Some(Era::Legacy),
        peers: Peers::Only(SDKS_AND_FLOORS),
        ..sdk(Workload::McpSdks, name, operation, 16)
    };
    vec![
        modern("mcp call c=1", Operation::Echo, 1),
        modern("mcp call c=16", Operation::Echo, 16),
        modern("mcp call c=32", Operation::Echo, 32),
        modern("mcp list c=16", Operation::Tools, 16),
        legacy("mcp legacy call c=16", Operation::Echo),
        legacy("mcp legacy ping c=16", Operation::Ping),
    ]
}

fn sdks_over_pipes() -> Vec<Case> {
    let case = |name: &str, era, operation, pipeline| Case {
        era: Some(era),
        pipeline,
        between: Between::Pipes,
        peers: Peers::Only(if era == Era::Modern { SDKS_AND_PIPE_ECHO } else { SDKS }),
        ..sdk(Workload::McpSdks, name, operation, 1)
    };
    vec![
        case("mcp stdio call w=1", Era::Modern, Operation::Echo, 1),
        case("mcp stdio call w=64", Era::Modern, Operation::Echo, 64),
        case("mcp stdio list w=1", Era::Modern, Operation::Tools, 1),
        case("mcp stdio legacy call w=1", Era::Legacy, Operation::Echo, 1),
        case("mcp stdio legacy call w=64", Era::Legacy, Operation::Echo, 64),
    ]
}

fn soak() -> Vec<Case> {
    let case = Case {
        amount: Amount::Requests(1_000_000, Duration::from_secs(20)),
        peers: Peers::Only(&["thruway-echo"]),
        ..sdk(Workload::McpSoak, "mcp soak", Operation::Echo, 16)
    };
    vec![case]
}

fn clients() -> Vec<Case> {
    let case = |name: &str, in_flight| Case {
        between: Between::Clients,
        peers: Peers::Only(&["ceiling", "rmcp"]),
        ..sdk(Workload::McpClient, name, Operation::Echo, in_flight)
    };
    let one_core = case("mcp client sequential, one core", 1);
    vec![
        case("mcp client sequential", 1),
        Case { circumstance: Circumstance::OneCore, ..one_core },
        case("mcp client 32 in flight", 32),
    ]
}

fn bridges() -> Vec<Case> {
    let case = |name: &str, era, connections| Case {
        ours: "thruway-bridge",
        era: Some(era),
        between: Between::Bridges,
        // One of the bridges knows the legacy era only.
        peers: Peers::Only(if era == Era::Legacy { BRIDGES } else { MODERN_BRIDGES }),
        ..Case::new(Workload::McpBridge, name, Request::Mcp(Operation::Echo), connections)
    };
    vec![
        case("mcp bridge c=1", Era::Legacy, 1),
        case("mcp bridge c=16", Era::Legacy, 16),
        case("mcp bridge modern c=16", Era::Modern, 16),
    ]
}

fn commands() -> Vec<Case> {
    let case = Case {
        ours: "thruway-call",
        amount: Amount::Requests(50, Duration::from_secs(1)),
        between: Between::Commands,
        peers: Peers::Only(&["thruway-version", "thruway-help"]),
        ..Case::new(Workload::McpCommand, "mcp command", Request::Mcp(Operation::Echo), 1)
    };
    vec![case]
}

/// A server on our SDK.
pub(crate) const OUR_SDK: &str = "mcp-on-thruway";

/// Servers on other SDKs; the longer lists add servers that do not read their messages.
const SDKS: &[&str] = &["rmcp", "tower-mcp", "mcp-go", "go-sdk", "typescript-sdk", "python-sdk"];
const SDKS_AND_ECHO: &[&str] =
    &["thruway-echo", "rmcp", "tower-mcp", "mcp-go", "go-sdk", "typescript-sdk", "python-sdk"];
const SDKS_AND_FLOORS: &[&str] =
    &["axum-fixed", "thruway-echo", "rmcp", "tower-mcp", "mcp-go", "go-sdk", "typescript-sdk", "python-sdk"];
const SDKS_AND_PIPE_ECHO: &[&str] =
    &["pipe-echo", "rmcp", "tower-mcp", "mcp-go", "go-sdk", "typescript-sdk", "python-sdk"];

const MODERN_BRIDGES: &[&str] = &["supergateway", "mcp-proxy-npm"];
const BRIDGES: &[&str] = &["supergateway", "mcp-proxy-npm", "mcp-proxy-python"];
