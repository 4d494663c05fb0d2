//! Where the demo server is, for clients of every age.

use thruway_mcp_sdk::{McpEndpoint, McpServerOptions};
use thruway_server::Router;

use super::demo;

/// Adds the endpoints of the demo server to `router`. They answer requests to `hosts` besides those to this machine.
pub(crate) fn mount(router: Router, hosts: &[String], options: McpServerOptions) -> Router {
    mount_endpoint(router, endpoint_with(hosts, options))
}

/// Adds the endpoints of a server to `router`.
pub(super) fn mount_endpoint(router: Router, endpoint: McpEndpoint) -> Router {
    let sse = endpoint.sse_endpoints(MESSAGE_PATH);
    router.any(PATH, endpoint).get(SSE_PATH, sse.stream()).post(MESSAGE_PATH, sse.messages())
}

/// The endpoint of the demo server, wherever it is. It answers requests to `hosts` besides those to this machine.
pub(crate) fn endpoint(hosts: &[String]) -> McpEndpoint {
    endpoint_with(hosts, McpServerOptions::default())
}

fn endpoint_with(hosts: &[String], options: McpServerOptions) -> McpEndpoint {
    hosts.iter().fold(demo::server(options).endpoint(), McpEndpoint::allow_host)
}

/// Where clients look first.
pub(super) const PATH: &str = "/mcp";

/// Where clients look that know HTTP with SSE only.
pub(super) const SSE_PATH: &str = "/sse";

/// Where these are told to send their messages.
const MESSAGE_PATH: &str = "/message";
