//! Tools of the demo server.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rmcp::ServiceError;
use rmcp::model::{CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ServerResult};
use rmcp::service::PeerRequestOptions;
use serde_json::{Value, json};

use super::client::{Heard, next};
use super::connection::{Connection, expect};

pub(crate) async fn use_all(connection: &Connection, heard: &mut Heard) -> anyhow::Result<()> {
    list(connection).await?;
    let echoed = call(connection, "echo", json!({"message": "grün"})).await?;
    expect("echo", &echoed.structured_content, &Some(json!({"echo": "grün", "length": 5})))?;
    let added = call(connection, "add", json!({"a": 1, "b": 2})).await?;
    expect("add", &added.structured_content, &Some(json!({"sum": 3.0})))?;
    mistakes(connection).await?;
    slow(connection, heard).await?;
    // The client gives its name only once.
    for answer in ["Hello, Grace!", "Hello!"] {
        let greeted = call(connection, "ask", json!({})).await?;
        expect("ask", &text(&greeted)?, &answer)?;
    }
    Ok(())
}

/// Cancels a call that would take a minute. The server must still answer the next one.
pub(crate) async fn give_up(connection: &Connection) -> anyhow::Result<()> {
    let options = PeerRequestOptions::with_timeout(Duration::from_millis(200));
    let request = request("slow", json!({"steps": 600}));
    let long = connection.send_request_with_option(request, options).await?;
    match long.await_response().await {
        Err(ServiceError::Timeout { .. }) => {}
        other => bail!("a call given up: {other:?}"),
    }
    let added = call(connection, "add", json!({"a": 1, "b": 1})).await?;
    expect("the call after one given up", &added.structured_content, &Some(json!({"sum": 2.0})))
}

async fn list(connection: &Connection) -> anyhow::Result<()> {
    let tools = connection.list_all_tools().await?;
    for name in ["echo", "add", "slow", "ask", "count"] {
        let tool = tools.iter().find(|tool| tool.name == name);
        let tool = tool.with_context(|| format!("there is no tool `{name}`"))?;
        ensure!(tool.description.is_some(), "`{name}` has no description");
        expect("the type of arguments", &tool.input_schema.get("type"), &Some(&json!("object")))?;
    }
    Ok(())
}

/// A wrong type of argument is an error result for the model. An unknown tool is a protocol error.
async fn mistakes(connection: &Connection) -> anyhow::Result<()> {
    let refused = call(connection, "echo", json!({"message": 5})).await?;
    expect("a number for a message", &refused.is_error, &Some(true))?;
    match call(connection, "nonesuch", json!({})).await {
        Err(ServiceError::McpError(_)) => Ok(()),
        other => bail!("a tool that is not there: {other:?}"),
    }
}

/// The server reports each step of progress with the token of the call.
async fn slow(connection: &Connection, heard: &mut Heard) -> anyhow::Result<()> {
    let request = request("slow", json!({"steps": 3}));
    let options = PeerRequestOptions::no_options();
    let pending = connection.send_request_with_option(request, options).await?;
    let token = pending.progress_token.clone();
    let ServerResult::CallToolResult(done) = pending.await_response().await? else { bail!("no result") };
    expect("slow", &text(&done)?, &"done after 3 steps")?;
    for step in [1.0, 2.0, 3.0] {
        let progress = next(&mut heard.progress).await?;
        expect("progress", &(progress.progress, progress.total), &(step, Some(3.0)))?;
        expect("its token", &progress.progress_token, &token)?;
        expect("its message", &progress.message.as_deref(), &Some("step completed"))?;
    }
    ensure!(heard.progress.is_empty(), "there was more progress than steps");
    Ok(())
}

/// Calls a tool. The client answers questions of the tool.
pub(crate) async fn call(
    connection: &Connection,
    name: &'static str,
    arguments: Value,
) -> Result<CallToolResult, ServiceError> {
    connection.call_tool(parameters(name, arguments)).await
}

fn request(name: &'static str, arguments: Value) -> ClientRequest {
    ClientRequest::CallToolRequest(CallToolRequest::new(parameters(name, arguments)))
}

fn parameters(name: &'static str, arguments: Value) -> CallToolRequestParams {
    let parameters = CallToolRequestParams::new(name);
    match arguments {
        Value::Object(arguments) => parameters.with_arguments(arguments),
        _ => parameters,
    }
}

/// Returns the text of the only content item.
fn text(result: &CallToolResult) -> anyhow::Result<&str> {
    let [content] = &result.content[..] else { bail!("{} contents", result.content.len()) };
    Ok(&content.as_text().context("the content is no text")?.text)
}
