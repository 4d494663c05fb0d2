//! Tools that send elicitation or sampling requests to the client. The SDK uses the form of the client's era.

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_mcp_sdk::schema::{
    CreateMessageRequestParams, ElicitRequestFormParams, ElicitResult, EnumOption, PrimitiveSchemaDefinition,
};
use thruway_mcp_sdk::{Context, HandlerError, McpServer};

use super::tool::tool;

pub(super) fn register(server: McpServer) -> McpServer {
    server
        .tool(tool("test_sampling", "Asks the client's model"), sample)
        .tool(
            tool("test_missing_capability", "Asks the client's model without checking its capability"),
            sample_anyway,
        )
        .tool(tool("test_elicitation", "Asks the user"), elicit)
        .tool(tool("test_elicitation_sep1034_defaults", "Asks with defaults"), elicit_with_defaults)
        .tool(tool("test_elicitation_sep1330_enums", "Asks to choose"), elicit_choices)
        .tool(tool("test_streaming_elicitation", "Reports progress and asks"), elicit_after_progress)
}

#[derive(Deserialize, JsonSchema)]
struct Sampling {
    /// The question for the model
    prompt: String,
}

async fn sample(Sampling { prompt }: Sampling, context: Context) -> Result<String, HandlerError> {
    let answer = context.sample("prompt", CreateMessageRequestParams::new(prompt, 100)).await?;
    Ok(format!("LLM response: {}", answer.text()))
}

async fn sample_anyway(context: Context) -> Result<String, HandlerError> {
    sample(Sampling { prompt: "Say hello".to_owned() }, context).await
}

#[derive(Deserialize, JsonSchema)]
struct Elicitation {
    /// The text for the user
    message: String,
}

async fn elicit(Elicitation { message }: Elicitation, context: Context) -> Result<String, HandlerError> {
    let text = PrimitiveSchemaDefinition::string;
    let form = ElicitRequestFormParams::new(message)
        .with_required_field("username", text().with_description("User's response"))
        .with_required_field("email", text().with_description("User's email address"));
    let answer = context.elicit_form("user", form).await?;
    Ok(format!("User response: {}", described(&answer)))
}

async fn elicit_with_defaults(context: Context) -> Result<String, HandlerError> {
    let form = ElicitRequestFormParams::new("Please check the default values")
        .with_field("name", PrimitiveSchemaDefinition::string().with_default("John Doe"))
        .with_field("age", PrimitiveSchemaDefinition::integer().with_default(30))
        .with_field("score", PrimitiveSchemaDefinition::number().with_default(95.5))
        .with_field(
            "status",
            PrimitiveSchemaDefinition::one_of(["active", "inactive", "pending"]).with_default("active"),
        )
        .with_field("verified", PrimitiveSchemaDefinition::boolean().with_default(true));
    let answer = context.elicit_form("defaults", form).await?;
    Ok(format!("Elicitation completed: {}", described(&answer)))
}

async fn elicit_choices(context: Context) -> Result<String, HandlerError> {
    let plain = ["option1", "option2", "option3"];
    let titled = |word: &str| {
        [("value1", "First"), ("value2", "Second"), ("value3", "Third")]
            .map(|(value, title)| EnumOption::new(value, format!("{title} {word}")))
    };
    let named = [("opt1", "Option One"), ("opt2", "Option Two"), ("opt3", "Option Three")]
        .map(|(value, title)| EnumOption::new(value, title));
    let form = ElicitRequestFormParams::new("Please choose")
        .with_field("untitledSingle", PrimitiveSchemaDefinition::one_of(plain))
        .with_field("titledSingle", PrimitiveSchemaDefinition::one_of_titled(titled("Option")))
        .with_field("legacyEnum", PrimitiveSchemaDefinition::one_of_named(named))
        .with_field("untitledMulti", PrimitiveSchemaDefinition::several_of(plain))
        .with_field("titledMulti", PrimitiveSchemaDefinition::several_of_titled(titled("Choice")));
    let answer = context.elicit_form("choices", form).await?;
    Ok(format!("Elicitation completed: {}", described(&answer)))
}

async fn elicit_after_progress(context: Context) -> Result<String, HandlerError> {
    context.progress(1.0, Some(2.0), Some("about to ask")).await;
    let form = ElicitRequestFormParams::new("Shall this go on?")
        .with_required_field("ok", PrimitiveSchemaDefinition::boolean());
    let answer = context.elicit_form("confirm", form).await?;
    Ok(format!("Elicitation completed: {}", described(&answer)))
}

fn described(answer: &ElicitResult) -> String {
    let content = answer.content.clone().unwrap_or_default();
    format!("action={}, content={}", answer.action.as_str(), serde_json::Value::Object(content))
}
