//! Tools with task support, and one tool without it.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_mcp_sdk::json_rpc::Error;
use thruway_mcp_sdk::schema::{ElicitRequestFormParams, ElicitResult, PrimitiveSchemaDefinition};
use thruway_mcp_sdk::{Context, HandlerError, McpServer, TaskSupport};
use tokio::time::sleep;
use tokio::try_join;

use super::tool::tool;

pub(super) fn register(server: McpServer) -> McpServer {
    let optional = TaskSupport::OPTIONAL;
    let required = TaskSupport::REQUIRED;
    server
        .tool(tool("greet", "Greets at once"), |Greet { name }: Greet| format!("Hello, {name}!"))
        .task_tool(tool("slow_compute", "Computes for a while"), optional, compute)
        .task_tool(tool("confirm_delete", "Asks before it acts"), optional, confirm)
        .task_tool(tool("multi_input", "Asks two things at once"), optional, ask_both)
        .task_tool(tool("failing_job", "Fails after a while"), required, fail)
        .task_tool(
            tool("protocol_error_job", "Ends with a protocol error"),
            required,
            fail_with_protocol_error,
        )
        .task_tool(
            tool("test_tool_with_task", "Asks, then continues as a task"),
            required.begun_by_handler(),
            ask_then_work,
        )
}

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// Name to greet
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Compute {
    /// Duration in seconds
    seconds: u32,
    /// Name of the result
    label: Option<String>,
}

async fn compute(Compute { seconds, label }: Compute, context: Context) -> String {
    for second in 0..seconds {
        context.progress(f64::from(second), Some(f64::from(seconds)), None).await;
        sleep(Duration::from_secs(1)).await;
    }
    format!("{} took {seconds} s", label.as_deref().unwrap_or("it"))
}

#[derive(Deserialize, JsonSchema)]
struct Delete {
    /// Name of the file
    filename: String,
}

async fn confirm(Delete { filename }: Delete, context: Context) -> Result<String, HandlerError> {
    let form = ElicitRequestFormParams::new(format!("Delete {filename}?"))
        .with_required_field("confirm", PrimitiveSchemaDefinition::boolean());
    let answer = context.elicit_form("confirm", form).await?;
    Ok(format!("{filename}: {}", answer.action.as_str()))
}

async fn ask_both(context: Context) -> Result<String, HandlerError> {
    let (name, again) = try_join!(ask_name(&context, "name"), ask_name(&context, "other_name"))?;
    Ok(format!("{} and {}", name.text("name"), again.text("name")))
}

async fn fail(_: Context) -> Result<(), HandlerError> {
    sleep(Duration::from_secs(1)).await;
    Err("this job fails".into())
}

async fn fail_with_protocol_error(_: Context) -> Result<(), HandlerError> {
    sleep(Duration::from_millis(100)).await;
    Err(Error::internal("this job breaks off").into())
}

async fn ask_then_work(context: Context) -> Result<String, HandlerError> {
    let answer = ask_name(&context, "user_name").await?;
    context.begin_task().await;
    sleep(Duration::from_millis(100)).await;
    Ok(format!("Hello, {}!", answer.text("name")))
}

async fn ask_name(context: &Context, key: &str) -> Result<ElicitResult, HandlerError> {
    let form = ElicitRequestFormParams::new("What is your name?")
        .with_required_field("name", PrimitiveSchemaDefinition::string());
    context.elicit_form(key, form).await
}
