//! A bridge that serves the server at a URL on the standard input and output. Client and server may use
//! different revisions.

use std::error::Error;

use thruway_mcp_sdk::{Bridge, BridgeOptions, McpClientBuilder, McpClientError};

pub(crate) async fn connect(url: String) -> Result<Bridge, McpClientError> {
    let connect = move |builder: McpClientBuilder| Ok(builder.http(&url));
    Bridge::connect(BridgeOptions::default(), connect).await
}

/// First run `thruway mcp serve`.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let bridge = connect("http://127.0.0.1:8080/mcp".to_owned()).await?;
    bridge.serve_standard_streams().await?;
    bridge.close().await;
    Ok(())
}
