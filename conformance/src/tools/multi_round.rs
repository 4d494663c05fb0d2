//! Tools that use multi round-trip requests in the modern era.
//!
//! The handler starts from the beginning in each round. The SDK returns earlier answers without asking again.

use thruway_mcp_sdk::schema::{
    CreateMessageRequestParams, ElicitRequestFormParams, ElicitResult, PrimitiveSchemaDefinition,
};
use thruway_mcp_sdk::{Context, HandlerError, McpServer};
use tokio::try_join;

use super::tool::tool;

pub(super) fn register(server: McpServer) -> McpServer {
    let named =
        |kind: &str| tool(&format!("test_input_required_result_{kind}"), "Requires input from the client");
    server
        .tool(named("elicitation"), greet)
        .tool(named("sampling"), ask_model)
        .tool(named("list_roots"), list_roots)
        .tool(named("request_state"), confirm)
        .tool(named("tampered_state"), confirm)
        .tool(named("multiple_inputs"), ask_everything)
        .tool(named("multi_round"), ask_twice)
        .tool(named("capabilities"), ask_within_capabilities)
}

async fn greet(context: Context) -> Result<String, HandlerError> {
    let answer = ask_name(&context).await?;
    Ok(format!("Hello, {}!", answer.text("name")))
}

async fn ask_model(context: Context) -> Result<String, HandlerError> {
    let question = CreateMessageRequestParams::new("What is the capital of France?", 100);
    let answer = context.sample("capital_question", question).await?;
    Ok(answer.text().to_owned())
}

async fn list_roots(context: Context) -> Result<String, HandlerError> {
    let roots = context.list_roots("client_roots").await?.roots;
    Ok(roots.into_iter().map(|root| root.uri).collect::<Vec<_>>().join(", "))
}

/// The SDK verifies the request state. The handler does not run if the state is invalid.
async fn confirm(context: Context) -> Result<&'static str, HandlerError> {
    let form = ElicitRequestFormParams::new("Please confirm")
        .with_required_field("ok", PrimitiveSchemaDefinition::boolean());
    context.elicit_form("confirm", form).await?;
    Ok("state-ok")
}

async fn ask_everything(context: Context) -> Result<String, HandlerError> {
    let (name, greeting, roots) = try_join!(
        ask_name(&context),
        context.sample("greeting", CreateMessageRequestParams::new("Generate a greeting", 50)),
        context.list_roots("client_roots"),
    )?;
    Ok(format!("{} {}: {} roots", greeting.text(), name.text("name"), roots.roots.len()))
}

async fn ask_twice(context: Context) -> Result<String, HandlerError> {
    let text = PrimitiveSchemaDefinition::string;
    let form = ElicitRequestFormParams::new("Step 1: What is your name?").with_required_field("name", text());
    let first = context.elicit_form("step1", form).await?;
    let form = ElicitRequestFormParams::new("Step 2: What is your favorite color?")
        .with_required_field("color", text());
    let second = context.elicit_form("step2", form).await?;
    Ok(format!("{} likes {}", first.text("name"), second.text("color")))
}

async fn ask_within_capabilities(context: Context) -> Result<String, HandlerError> {
    let capabilities = context.client_capabilities()?;
    let mut answered = Vec::new();
    if capabilities.sampling.is_some() {
        context.sample("greeting", CreateMessageRequestParams::new("Generate a greeting", 50)).await?;
        answered.push("sampling");
    }
    if capabilities.has_form_elicitation() {
        ask_name(&context).await?;
        answered.push("elicitation");
    }
    if capabilities.roots.is_some() {
        context.list_roots("client_roots").await?;
        answered.push("roots");
    }
    Ok(format!("answered: {}", answered.join(", ")))
}

async fn ask_name(context: &Context) -> Result<ElicitResult, HandlerError> {
    let form = ElicitRequestFormParams::new("What is your name?")
        .with_required_field("name", PrimitiveSchemaDefinition::string());
    context.elicit_form("user_name", form).await
}
