//! Tools.

// what they answer
mod content;
mod schemas;

// what they say before they answer
mod messages;
mod questions;
mod rounds;

// what they do when they are answered
mod tasks;

// what they do to the server
mod changes;

use thruway_mcp_sdk::McpServer;
use thruway_mcp_sdk::schema::Tool;

/// All of them.
pub(crate) fn offer(server: McpServer) -> McpServer {
    let server = content::offer(server);
    let server = schemas::offer(server);
    let server = messages::offer(server);
    let server = questions::offer(server);
    let server = rounds::offer(server);
    let server = tasks::offer(server);
    changes::offer(server)
}

fn tool(name: &str, description: &str) -> Tool {
    Tool::new(name).with_description(description)
}
