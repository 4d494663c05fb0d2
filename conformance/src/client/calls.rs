//! Calls to the server.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use thruway_mcp_sdk::McpClient;
use thruway_mcp_sdk::schema::Tool;

use super::Outcome;

/// Calls each tool, reads each resource and gets each prompt of the server once.
pub(crate) async fn use_all_features(client: &McpClient) -> Outcome {
    let capabilities = client.discover().await?.capabilities;
    if capabilities.tools.is_some() {
        for tool in client.list_tools().await? {
            call(client, &tool).await?;
        }
    }
    if capabilities.resources.is_some() {
        for resource in client.list_resources().await? {
            client.read_resource(&resource.uri).await?;
        }
    }
    if capabilities.prompts.is_some() {
        for prompt in client.list_prompts().await? {
            let arguments = prompt.arguments.iter().map(|argument| (argument.name.clone(), "x".to_owned()));
            client.get_prompt(&prompt.name, arguments.collect::<BTreeMap<_, _>>()).await?;
        }
    }
    client.clone().close().await;
    Ok(())
}

/// Calls a tool with sample values for its required arguments.
async fn call(client: &McpClient, tool: &Tool) -> Outcome {
    let schema = serde_json::to_value(&tool.input_schema)?;
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let arguments: BTreeMap<_, _> = required
        .iter()
        .filter_map(|name| name.as_str())
        .map(|name| (name, sample(&schema["properties"][name])))
        .collect();
    client.call_tool(&tool.name, arguments).await?;
    Ok(())
}

/// Returns a sample value of the type in `schema`.
fn sample(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("number" | "integer") => json!(2),
        Some("boolean") => json!(true),
        Some("object") => json!({}),
        Some("array") => json!([]),
        _ => json!("x"),
    }
}

/// Makes the calls that the scenario context lists.
pub(crate) async fn make_listed_calls(client: &McpClient, context: &Value) -> Outcome {
    client.list_tools().await?;
    for call in context["toolCalls"].as_array().ok_or("the context has no field `toolCalls`")? {
        let name = call["name"].as_str().ok_or("a call has no name")?;
        client.call_tool(name, &call["arguments"]).await?;
    }
    Ok(())
}

/// Lists the tools, and calls none of them.
pub(crate) async fn list_tools(client: &McpClient) -> Outcome {
    client.list_tools().await?;
    Ok(())
}

/// Sends the input schema of a tool back to the server.
pub(crate) async fn echo_schema(client: &McpClient) -> Outcome {
    let tools = client.list_tools().await?;
    let tool = tools
        .iter()
        .find(|tool| tool.name == "json_schema_2020_12_tool")
        .ok_or("the server lacks the tool `json_schema_2020_12_tool`")?;
    client.call_tool("json_schema_echo", json!({"schema": tool.input_schema})).await?;
    Ok(())
}
