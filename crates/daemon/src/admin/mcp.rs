//! The state of MCP endpoints in `/status` and `/metrics`.

use serde::Serialize;
use thruway_mcp_sdk::{McpGateway, MemberState, MemberStatus, Revision};

use super::exposition::{Exposition, Kind};
use crate::running_state::RunningConfig;

/// An MCP endpoint and its servers.
#[derive(Serialize)]
pub(super) struct McpEndpointJson<'a> {
    name: &'a str,
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
    /// Absent if the endpoint offers everything that the server has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    withheld: Vec<WithheldJson>,
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
            Self { name, servers: servers.collect() }
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
            withheld: withheld.collect(),
        }
    }
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

const STATES: [&str; 3] = ["connected", "connecting", "failed"];
