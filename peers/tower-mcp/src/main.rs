//! tower-mcp on axum or on pipes, configured for speed. It has one current-thread runtime. It does not send
//! the server name in each response, and does not validate arguments against schemas.

use std::error::Error;

use axum::serve::ListenerExt;
use mimalloc::MiMalloc;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tower_mcp::schemars::{self, JsonSchema};
use tower_mcp::stateless::StatelessConfig;
use tower_mcp::{CallToolResult, HttpTransport, McpRouter, StdioTransport, Tool, ToolBuilder};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    if contract::has_flag("--stdio") {
        return Ok(runtime.block_on(StdioTransport::new(router()).run())?);
    }
    Ok(runtime.block_on(serve_http())?)
}

async fn serve_http() -> std::io::Result<()> {
    let transport = HttpTransport::new(router()).stamp_server_info(false).stateless(StatelessConfig::new());
    let listener = TcpListener::bind(contract::listen_address()).await?;
    let listener = listener.tap_io(|stream| {
        stream.set_nodelay(true).expect("setting TCP_NODELAY should succeed");
    });
    axum::serve(listener, transport.into_router_at("/mcp")).await
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    message: String,
}

#[derive(Serialize)]
struct Echoed {
    echo: String,
    length: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

#[derive(Serialize)]
struct Sum {
    sum: f64,
}

fn router() -> McpRouter {
    let echo = ToolBuilder::new("echo")
        .description("Sends a message back")
        .handler(|Echo { message }: Echo| async move {
            CallToolResult::from_serialize(&Echoed { length: message.len(), echo: message })
        })
        .build();
    let add = ToolBuilder::new("add")
        .description("Adds two numbers")
        .handler(|Add { a, b }: Add| async move { CallToolResult::from_serialize(&Sum { sum: a + b }) })
        .build();
    let more = (2..contract::tools()).map(nothing);
    more.fold(McpRouter::new().server_info("bench", "1.0").tool(echo).tool(add), McpRouter::tool)
}

fn nothing(n: usize) -> Tool {
    ToolBuilder::new(contract::tool_name(n))
        .description("Does nothing")
        .handler(|_: Echo| async { Ok(CallToolResult::text("nothing")) })
        .build()
}
