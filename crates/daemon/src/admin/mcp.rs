//! The state of MCP endpoints in `/status` and `/metrics`.

use std::time::Duration;

use serde::Serialize;
use thruway_mcp_sdk::{CallCounts, McpGateway, MemberCalls, MemberState, MemberStatus, Revision};
use thruway_telemetry::{HistogramPoint, MetricKind as Kind};

use super::durations::percentile;
use super::exposition::Exposition;
use crate::running_state::RunningConfig;

/// An MCP endpoint and its servers.
#[derive(Serialize)]
pub(super) struct McpEndpointJson<'a> {
    name: &'a str,
    /// Sessions of clients of the legacy era.
    sessions: usize,
    /// Open subscriptions of clients of the modern era.
    subscriptions: usize,
    servers: Vec<McpServerJson>,
}

/// An MCP server of an endpoint.
#[derive(Serialize)]
struct McpServerJson {
    name: String,
    state: &'static str,
    /// Absent until the server has connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<&'static str>,
    /// Absent if no attempt to connect has failed since the last connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// Absent until the server has sent the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_templates: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompts: Option<usize>,
    /// Present only if other servers can use the plain names of this server.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    has_unreserved_names: bool,
    /// Absent if the endpoint offers everything that the server has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    withheld: Vec<WithheldJson>,
    calls: CallsJson,
    /// Absent until a client has called a tool of the server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCallsJson>,
}

/// The calls of a server or tool.
#[derive(Serialize)]
struct CallsJson {
    total: u64,
    errors: u64,
    /// The mean duration in milliseconds. Absent if there were no calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_ms: Option<f64>,
    /// The median in milliseconds, estimated from a histogram. Absent if there were no calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    /// The 99th percentile in milliseconds, estimated from a histogram. Absent if there were no calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ms: Option<f64>,
}

#[derive(Serialize)]
struct ToolCallsJson {
    tool: String,
    #[serde(flatten)]
    calls: CallsJson,
}

/// A tool, resource or prompt that the endpoint does not offer.
#[derive(Serialize)]
struct WithheldJson {
    name: String,
    reason: String,
}

impl<'a> McpEndpointJson<'a> {
    pub(super) fn all(running: &'a RunningConfig) -> Vec<Self> {
        let endpoint = |(name, gateway): &'a (String, McpGateway)| {
            let servers = gateway.members().into_iter().map(McpServerJson::from);
            let (sessions, subscriptions) = (gateway.session_count(), gateway.subscription_count());
            Self { name, sessions, subscriptions, servers: servers.collect() }
        };
        running.mcp.iter().map(endpoint).collect()
    }
}

impl From<MemberStatus> for McpServerJson {
    fn from(status: MemberStatus) -> Self {
        let withheld = status.withheld.into_iter();
        let withheld = withheld.map(|item| WithheldJson { name: item.name, reason: item.reason });
        Self {
            name: status.name,
            state: state(status.state),
            revision: status.revision.map(Revision::as_str),
            last_error: status.last_error,
            tools: status.tools,
            resources: status.resources,
            resource_templates: status.templates,
            prompts: status.prompts,
            has_unreserved_names: status.has_unreserved_names,
            withheld: withheld.collect(),
            calls: status.calls.all.into(),
            tool_calls: tools_of(&status.calls).map(ToolCallsJson::from).collect(),
        }
    }
}

impl From<CallCounts> for CallsJson {
    fn from(counts: CallCounts) -> Self {
        let calls = u32::try_from(counts.calls).unwrap_or(u32::MAX);
        // Whole microseconds keep the numbers short.
        let milliseconds = |duration: Duration| (duration.as_secs_f64() * 1e6).round() / 1e3;
        let percentile_ms =
            |per_mille| percentile(&counts.buckets, &MemberCalls::BOUNDS, per_mille).map(milliseconds);
        Self {
            total: counts.calls,
            errors: counts.errors,
            mean_ms: counts.duration.checked_div(calls).map(milliseconds),
            p50_ms: percentile_ms(500),
            p99_ms: percentile_ms(990),
        }
    }
}

impl From<(&str, CallCounts)> for ToolCallsJson {
    fn from((tool, counts): (&str, CallCounts)) -> Self {
        Self { tool: tool.to_owned(), calls: counts.into() }
    }
}

/// Returns the calls of each called tool of a server. The last element contains the calls of tools without
/// their own counters, if any.
fn tools_of(calls: &MemberCalls) -> impl Iterator<Item = (&str, CallCounts)> {
    let others = Some((OTHER_TOOLS, calls.other_tools)).filter(|(_, counts)| counts.calls > 0);
    calls.tools.iter().map(|(tool, counts)| (tool.as_str(), *counts)).chain(others)
}

/// Writes the metrics of all MCP endpoints.
pub(super) fn write_mcp(exposition: &mut Exposition, running: &RunningConfig) {
    let servers: Vec<_> = running
        .mcp
        .iter()
        .flat_map(|(endpoint, gateway)| gateway.members().into_iter().map(move |member| (endpoint, member)))
        .collect();
    let mut write = |name, help, values: &dyn Fn(&MemberStatus) -> Vec<Sample>| {
        let mut family = exposition.family(name, Kind::Gauge, help);
        for (endpoint, member) in &servers {
            for (label, value) in values(member) {
                let labels = [("endpoint", endpoint.as_str()), ("server", &member.name)];
                let labels: Vec<_> = labels.into_iter().chain(label).collect();
                family.sample(&labels, value);
            }
        }
    };
    let help = "1 for the current state of the MCP server, 0 for the other states.";
    write("thruway_mcp_server_state", help, &|member| {
        let current = state(member.state);
        STATES.iter().map(|state| (Some(("state", *state)), usize::from(*state == current))).collect()
    });
    let help = "Number of tools, resources, resource templates and prompts that the MCP server has.";
    write("thruway_mcp_server_items", help, &|member| {
        let counts = [
            ("tools", member.tools),
            ("resources", member.resources),
            ("resource_templates", member.templates),
            ("prompts", member.prompts),
        ];
        counts.into_iter().filter_map(|(kind, count)| Some((Some(("kind", kind)), count?))).collect()
    });
    let help = "Number of items of the MCP server that the endpoint does not offer.";
    write("thruway_mcp_server_withheld_items", help, &|member| vec![(None, member.withheld.len())]);
    write_calls(exposition, &servers);
    write_tool_calls(exposition, &servers);
}

fn write_calls(exposition: &mut Exposition, servers: &[(&String, MemberStatus)]) {
    let help = "Duration of calls of the MCP server: called tools, requested prompts and read resources.";
    let mut family = exposition.family("thruway_mcp_call_duration_seconds", Kind::Histogram, help);
    for (endpoint, member) in servers {
        let calls = &member.calls;
        let labels = [("endpoint", endpoint.as_str()), ("server", &member.name)];
        let point = HistogramPoint {
            bounds: &MemberCalls::BOUNDS,
            buckets: &calls.all.buckets,
            sum: calls.all.duration,
            exemplars: &calls.exemplars,
        };
        family.histogram(&labels, &point);
    }
    let help = "Calls of the MCP server that ended with an error.";
    let mut family = exposition.family("thruway_mcp_call_errors_total", Kind::Counter, help);
    for (endpoint, member) in servers {
        let labels = [("endpoint", endpoint.as_str()), ("server", &member.name)];
        family.sample(&labels, member.calls.all.errors);
    }
}

fn write_tool_calls(exposition: &mut Exposition, servers: &[(&String, MemberStatus)]) {
    let mut write = |name, help, value: &dyn Fn(CallCounts) -> f64| {
        let mut family = exposition.family(name, Kind::Counter, help);
        for (endpoint, member) in servers {
            for (tool, counts) in tools_of(&member.calls) {
                let labels = [("endpoint", endpoint.as_str()), ("server", &member.name), ("tool", tool)];
                family.sample(&labels, value(counts));
            }
        }
    };
    #[expect(clippy::cast_precision_loss, reason = "Prometheus uses floating-point numbers")]
    let float = |count: u64| count as f64;
    let help = "Calls of the tool.";
    write("thruway_mcp_tool_calls_total", help, &|counts| float(counts.calls));
    let help = "Calls of the tool that ended with an error.";
    write("thruway_mcp_tool_errors_total", help, &|counts| float(counts.errors));
    let help = "Sum of the durations of all calls of the tool.";
    write("thruway_mcp_tool_seconds_total", help, &|counts| counts.duration.as_secs_f64());
}

/// An additional label, if any, and the value of a sample.
type Sample = (Option<(&'static str, &'static str)>, usize);

const fn state(state: MemberState) -> &'static str {
    match state {
        MemberState::Connecting => "connecting",
        MemberState::Connected => "connected",
        MemberState::Failed => "failed",
    }
}

/// The name for all tools without their own counters. A prefixed name contains `__` after the name of a server, so
/// it never equals this name.
const OTHER_TOOLS: &str = "_OTHER";

const STATES: [&str; 3] = ["connected", "connecting", "failed"];
