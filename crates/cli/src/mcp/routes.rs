//! Where the demo server is, for clients of every age.

use thruway_mcp_sdk::McpEndpoint;
use thruway_server::Router;

use super::demo;

/// Adds the endpoints of a server to `router`.
pub(crate) fn mount_endpoint(router: Router, endpoint: McpEndpoint) -> Router {
    let sse = endpoint.sse_endpoints(MESSAGE_PATH);
    router.any(PATH, endpoint).get(SSE_PATH, sse.stream()).post(MESSAGE_PATH, sse.messages())
}

/// The endpoint of the demo server. `Host` and `Origin` of a request must name this machine or one of
/// `hosts`.
pub(crate) fn endpoint(hosts: &[String]) -> McpEndpoint {
    hosts.iter().fold(demo::server().endpoint(), McpEndpoint::allow_host)
}

/// Where clients look first.
pub(super) const PATH: &str = "/mcp";

/// Where clients look that know HTTP with SSE only.
pub(super) const SSE_PATH: &str = "/sse";

/// Where these are told to send their messages.
pub(super) const MESSAGE_PATH: &str = "/message";
