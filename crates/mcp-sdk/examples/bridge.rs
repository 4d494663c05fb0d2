//! A bridge between a client on the standard input and output and an MCP server at a URL. The client and
//! the server may use different protocol revisions.

use std::error::Error;

use thruway_mcp_sdk::{Bridge, BridgeOptions, McpClientBuilder, McpClientError};

pub(crate) async fn connect(url: String) -> Result<Bridge, McpClientError> {
    let connect = move |builder: McpClientBuilder| Ok(builder.http(&url));
    Bridge::connect(BridgeOptions::default(), connect).await
}

/// Run `thruway mcp serve` before this example.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let bridge = connect("http://127.0.0.1:8080/mcp".to_owned()).await?;
    bridge.serve_standard_streams().await?;
    bridge.close().await;
    Ok(())
}
