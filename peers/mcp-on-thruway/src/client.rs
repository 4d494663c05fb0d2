//! The client of Thruway's SDK, which calls a tool repeatedly.

use std::error::Error;

use calls::{Load, MESSAGE};
use serde::Serialize;
use thruway_mcp_sdk::McpClient;

#[derive(Serialize)]
struct Echo {
    message: &'static str,
}

/// Calls the tool on a current-thread runtime.
pub(crate) fn run(load: &Load) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let client = McpClient::http(&load.url);
        load.run(move || {
            let client = client.clone();
            async move { call(&client).await }
        })
        .await
    })
}

async fn call(client: &McpClient) -> Result<(), String> {
    let called = client.call_tool("echo", Echo { message: MESSAGE }).await;
    let result = called.map_err(|error| error.to_string())?;
    match &result.structured_content {
        Some(content) if content.as_str().contains(MESSAGE) => Ok(()),
        _ => Err(format!("unexpected result: {result:?}")),
    }
}
