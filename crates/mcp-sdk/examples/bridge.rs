//! A bridge: on the standard input and output, what the server at a URL serves. Either may speak any revision.

use std::error::Error;

use thruway_mcp_sdk::{BridgeOptions, McpClientBuilder, McpClientError, McpServer};

pub(crate) async fn server(url: String) -> Result<McpServer, McpClientError> {
    let connect = move |builder: McpClientBuilder| Ok(builder.http(&url));
    McpServer::bridge(BridgeOptions::default(), connect).await
}

/// Run `thruway mcp serve` before.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = server("http://127.0.0.1:8080/mcp".to_owned()).await?;
    server.serve_standard_streams().await?;
    server.close_bridge().await;
    Ok(())
}
