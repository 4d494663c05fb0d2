//! Shared constructor of tool descriptions.

use thruway_mcp_sdk::schema::Tool;

pub(super) fn tool(name: &str, description: &str) -> Tool {
    Tool::new(name).with_description(description)
}
