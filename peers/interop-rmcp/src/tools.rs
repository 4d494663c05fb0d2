//! Tools of the demo server.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rmcp::ServiceError;
use rmcp::model::{CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ServerResult};
use rmcp::service::PeerRequestOptions;
use serde_json::{Value, json};

use super::client::{Notifications, next};
use super::connection::{Connection, expect};

pub(crate) async fn use_all(
    connection: &Connection,
    notifications: &mut Notifications,
) -> anyhow::Result<()> {
    list(connection).await?;
    let echoed = call(connection, "echo", json!({"message": "grün"})).await?;
    expect("echo", &echoed.structured_content, &Some(json!({"echo": "grün", "length": 5})))?;
    let added = call(connection, "add", json!({"a": 1, "b": 2})).await?;
    expect("add", &added.structured_content, &Some(json!({"sum": 3.0})))?;
    check_errors(connection).await?;
    slow(connection, notifications).await?;
    // The server asks for a name in each call. The client gives a name only in the first call.
    for answer in ["Hello, Grace!", "Hello!"] {
        let greeted = call(connection, "ask", json!({})).await?;
        expect("ask", &text(&greeted)?, &answer)?;
    }
    Ok(())
}

/// Cancels a call that would take a minute. The server must still respond to the next call.
pub(crate) async fn cancel_call(connection: &Connection) -> anyhow::Result<()> {
    let options = PeerRequestOptions::with_timeout(Duration::from_millis(200));
    let request = request("slow", json!({"steps": 600}));
    let long = connection.send_request_with_option(request, options).await?;
    match long.await_response().await {
        Err(ServiceError::Timeout { .. }) => {}
        other => bail!("expected a timeout, got {other:?}"),
    }
    let added = call(connection, "add", json!({"a": 1, "b": 1})).await?;
    expect("the call after a canceled call", &added.structured_content, &Some(json!({"sum": 2.0})))
}

async fn list(connection: &Connection) -> anyhow::Result<()> {
    let tools = connection.list_all_tools().await?;
    for name in ["echo", "add", "slow", "ask", "count"] {
        let tool = tools.iter().find(|tool| tool.name == name);
        let tool = tool.with_context(|| format!("the server lacks the tool `{name}`"))?;
        ensure!(tool.description.is_some(), "`{name}` has no description");
        expect("the type of arguments", &tool.input_schema.get("type"), &Some(&json!("object")))?;
    }
    Ok(())
}

/// Checks that an argument of the wrong type gives an error result, and that an unknown tool gives a protocol
/// error.
async fn check_errors(connection: &Connection) -> anyhow::Result<()> {
    let refused = call(connection, "echo", json!({"message": 5})).await?;
    expect("`echo` with a number as the message", &refused.is_error, &Some(true))?;
    match call(connection, "nonesuch", json!({})).await {
        Err(ServiceError::McpError(_)) => Ok(()),
        other => bail!("expected an error for an unknown tool, got {other:?}"),
    }
}

/// Checks that the server reports the progress of each step with the token of the call.
async fn slow(connection: &Connection, notifications: &mut Notifications) -> anyhow::Result<()> {
    let request = request("slow", json!({"steps": 3}));
    let options = PeerRequestOptions::no_options();
    let pending = connection.send_request_with_option(request, options).await?;
    let token = pending.progress_token.clone();
    let ServerResult::CallToolResult(done) = pending.await_response().await? else {
        bail!("the response is not a tool result")
    };
    expect("slow", &text(&done)?, &"done after 3 steps")?;
    for step in [1.0, 2.0, 3.0] {
        let progress = next(&mut notifications.progress).await?;
        expect("progress", &(progress.progress, progress.total), &(step, Some(3.0)))?;
        expect("the progress token", &progress.progress_token, &token)?;
        expect("the progress message", &progress.message.as_deref(), &Some("step completed"))?;
    }
    ensure!(notifications.progress.is_empty(), "more progress notifications than steps");
    Ok(())
}

/// Calls a tool. The client responds to elicitation requests of the tool.
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
    let [content] = &result.content[..] else {
        bail!("expected one content item, got {}", result.content.len())
    };
    Ok(&content.as_text().context("the content is not text")?.text)
}
