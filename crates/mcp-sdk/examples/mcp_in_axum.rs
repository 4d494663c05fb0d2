//! An axum application that is also an MCP server. The application runs on Thruway. With `axum::serve`,
//! the application would run on hyper.
//!
//! ```sh
//! cargo run -p thruway-mcp-sdk --example mcp_in_axum
//! ```

use axum::Router;
use axum::routing::get;
use schemars::JsonSchema;
use serde::Deserialize;
use thruway_mcp_sdk::McpServer;
use thruway_mcp_sdk::schema::Tool;
use thruway_server::{Server, ServerError, Tower};

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// Name to greet
    name: String,
}

pub(crate) fn server() -> McpServer {
    McpServer::new("greeter", "1.0.0")
        .tool(Tool::new("greet").with_description("Greets somebody"), |Greet { name }: Greet| {
            format!("Hello, {name}!")
        })
}

pub(crate) fn app() -> Router {
    Router::new()
        .route("/", get(async || "There is an MCP server at /mcp."))
        .route_service("/mcp", server().endpoint().tower_service())
}

fn main() -> Result<(), ServerError> {
    Server::new(Tower::new(app())).listen("127.0.0.1:8080")?.run()
}
