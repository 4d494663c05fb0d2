//! MCP server with Thruway's SDK. It has the same tools as the `rmcp` peer. With `--call`, it runs the client
//! instead.

mod client;

use std::error::Error;

use calls::Load;
use mimalloc::MiMalloc;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{LegacySessions, McpServer, McpServerOptions, Structured, schema::Implementation};
use thruway_server::{Content, FieldLinesBuf, Request, Response, Router, Server};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(load) = Load::from_arguments() {
        return client::run(&load);
    }
    let sessions =
        if contract::has_flag("--sessions") { LegacySessions::Stateful } else { LegacySessions::Stateless };
    if contract::has_flag("--stdio") {
        return Ok(server(sessions).serve_stdio()?);
    }
    let router = if contract::has_flag("--echo") {
        Router::new().any("/mcp", echo)
    } else {
        Router::new().any("/mcp", server(sessions).endpoint())
    };
    Ok(Server::new(router)
        .listen_on(thruway_server::ListenAddr::from(contract::listen_address()))
        .workers(1)
        .run()?)
}

/// Sends the message back without parsing it, as a lower bound for the cost of a call.
fn echo(request: &Request) -> Response {
    const JSON: FieldLinesBuf = FieldLinesBuf::from_static("Content-Type: application/json\r\n");
    Response::ok(JSON, Content::copy_of(request.content()))
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    message: String,
}

#[derive(Serialize, JsonSchema)]
struct Echoed {
    echo: String,
    length: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: f64,
}

fn server(legacy_sessions: LegacySessions) -> McpServer {
    let options = McpServerOptions { legacy_sessions, ..McpServerOptions::default() };
    let mut server = McpServer::with_options(Implementation::new("bench", "1.0"), options)
        .tool(Tool::new("echo").with_description("Sends a message back"), |Echo { message }: Echo| {
            Structured(Echoed { length: message.len(), echo: message })
        })
        .tool(Tool::new("add").with_description("Adds two numbers"), |Add { a, b }: Add| {
            Structured(Sum { sum: a + b })
        });
    for n in 2..contract::tools() {
        server = server
            .tool(Tool::new(contract::tool_name(n)).with_description("Does nothing"), |_: Echo| "nothing");
    }
    server
}
