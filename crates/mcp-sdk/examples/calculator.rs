//! A minimal MCP server with a tool: typed arguments and a structured result over Streamable HTTP. With
//! `--stdio`, the server uses the standard input and output.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{McpServer, Structured};
use thruway_server::{Router, Server};

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: f64,
}

pub(crate) fn server() -> McpServer {
    McpServer::new("calculator", "1.0.0")
        .tool(Tool::new("add").with_description("Adds two numbers"), |Add { a, b }: Add| {
            Structured(Sum { sum: a + b })
        })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().any(|argument| argument == "--stdio") {
        return Ok(server().serve_stdio()?);
    }
    Server::new(Router::new().any("/mcp", server().endpoint())).listen("127.0.0.1:8080")?.run()?;
    Ok(())
}
