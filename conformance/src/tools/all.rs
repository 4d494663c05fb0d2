//! All tools.

use thruway_mcp_sdk::McpServer;

use super::{changes, content, input_requests, messages, multi_round, schemas, tasks};

/// Adds all tools to `server`.
pub(crate) fn register(server: McpServer) -> McpServer {
    let server = content::register(server);
    let server = schemas::register(server);
    let server = messages::register(server);
    let server = input_requests::register(server);
    let server = multi_round::register(server);
    let server = tasks::register(server);
    changes::register(server)
}
