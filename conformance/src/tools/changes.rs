//! Tools that add or remove a tool or a prompt.

use thruway_mcp_sdk::McpServer;
use thruway_mcp_sdk::schema::Prompt;

use super::tool::tool;

pub(super) fn register(server: McpServer) -> McpServer {
    let (tools, prompts) = (server.clone(), server.clone());
    server
        .tool(tool("test_trigger_tool_change", "Adds a tool, or removes it"), move || change_tools(&tools))
        .tool(tool("test_trigger_prompt_change", "Adds a prompt, or removes it"), move || {
            change_prompts(&prompts)
        })
}

fn change_tools(server: &McpServer) -> &'static str {
    if server.remove_tool(CHANGING) {
        return "removed";
    }
    match server.add_tool(tool(CHANGING, "Is added and removed"), || "here I am") {
        Ok(()) => "added",
        Err(_) => "not added",
    }
}

fn change_prompts(server: &McpServer) -> &'static str {
    if server.remove_prompt(CHANGING) {
        return "removed";
    }
    server.add_prompt(Prompt::new(CHANGING).with_description("Is added and removed"), || "Here I am.");
    "added"
}

const CHANGING: &str = "test_changing";
