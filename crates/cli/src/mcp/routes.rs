//! The paths of an MCP server, for clients of every revision.

use thruway_mcp_sdk::{McpEndpoint, McpServerOptions};
use thruway_server::Router;

use super::demo;

/// Adds the endpoints of a server to `router`.
pub(crate) fn mount_endpoint(router: Router, endpoint: McpEndpoint) -> Router {
    let sse = endpoint.sse_endpoints(MESSAGE_PATH);
    router.any(PATH, endpoint).get(SSE_PATH, sse.stream()).post(MESSAGE_PATH, sse.messages())
}

/// The endpoint of the demo server. `Host` and `Origin` of a request must name this machine or one of
/// `hosts`.
pub(crate) fn endpoint(hosts: &[String], options: McpServerOptions) -> McpEndpoint {
    hosts.iter().fold(demo::server(options).endpoint(), McpEndpoint::allow_host)
}

/// Path of the Streamable HTTP endpoint.
pub(super) const PATH: &str = "/mcp";

/// Path of the event stream for clients of HTTP with SSE (2024-11-05).
pub(super) const SSE_PATH: &str = "/sse";

/// Path that these clients send their messages to.
pub(super) const MESSAGE_PATH: &str = "/message";
