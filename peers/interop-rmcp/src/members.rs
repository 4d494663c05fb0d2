//! Calls a tool of each member of an MCP endpoint, in both eras.

use anyhow::{Context as _, ensure};
use rmcp::ClientServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::Value;

use crate::client::Client;
use crate::connection::{Connection, Era, expect};

/// Makes the calls in `file`. Each call has its own connection, because the client answers only one
/// elicitation.
pub(crate) async fn call_all(url: &str, file: &str) -> anyhow::Result<()> {
    let calls: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    for era in [Era::Modern, Era::Legacy] {
        for call in &calls {
            let (client, _notifications) = Client::new();
            let http = StreamableHttpClientTransport::from_uri(url);
            let connection = client.serve_with_lifecycle(http, era.lifecycle()).await?;
            check_call(&connection, call).await.with_context(|| format!("{}: {call}", era.revision()))?;
            connection.cancel().await?;
        }
    }
    println!("{} calls in both eras", calls.len());
    Ok(())
}

async fn check_call(connection: &Connection, call: &Value) -> anyhow::Result<()> {
    let tool = call["tool"].as_str().context("the call has no tool")?.to_owned();
    let tools = connection.list_all_tools().await?;
    ensure!(tools.iter().any(|listed| listed.name == tool), "the endpoint does not list `{tool}`");
    let arguments = call["arguments"].as_object().cloned().unwrap_or_default();
    let params = CallToolRequestParams::new(tool).with_arguments(arguments);
    let result = connection.call_tool(params).await?;
    expect("an error of the tool", &result.is_error.unwrap_or_default(), &false)?;
    let text = result.content.first().and_then(|content| content.as_text());
    let text = text.map(|content| content.text.as_str()).context("the result has no text")?;
    let expected = call["expected"].as_str().context("the call has no expected text")?;
    ensure!(text.contains(expected), "unexpected result: {text}");
    Ok(())
}
