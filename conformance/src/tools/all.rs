//! All tools.

use thruway_mcp_sdk::McpServer;

use super::{changes, content, messages, questions, rounds, schemas, tasks};

/// Adds all tools.
pub(crate) fn offer(server: McpServer) -> McpServer {
    let server = content::offer(server);
    let server = schemas::offer(server);
    let server = messages::offer(server);
    let server = questions::offer(server);
    let server = rounds::offer(server);
    let server = tasks::offer(server);
    changes::offer(server)
}
