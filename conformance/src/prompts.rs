//! Prompts, and completions for their arguments.

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_mcp_sdk::schema::{
    ContentBlock, ElicitRequestFormParams, PrimitiveSchemaDefinition, Prompt, PromptMessage, ResourceContents,
};
use thruway_mcp_sdk::{CompletionInput, Context, HandlerError, McpServer};

use crate::samples::PNG;

/// Adds all prompts to `server`.
pub(crate) fn register(server: McpServer) -> McpServer {
    server
        .prompt(
            Prompt::new("test_simple_prompt").with_description("A prompt without arguments"),
            || "This is a simple prompt for testing.",
        )
        .prompt(
            Prompt::new("test_prompt_with_arguments").with_description("A prompt with two arguments"),
            |Arguments { arg1, arg2 }: Arguments| {
                format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")
            },
        )
        .completion("test_prompt_with_arguments", "arg1", |input: CompletionInput| complete(&input.value))
        .prompt(
            Prompt::new("test_prompt_with_embedded_resource").with_description("A prompt with a resource"),
            with_embedded_resource,
        )
        .prompt(Prompt::new("test_prompt_with_image").with_description("A prompt with a picture"), with_image)
        .prompt(
            Prompt::new("test_input_required_result_prompt").with_description("A prompt that asks the user"),
            with_question,
        )
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// First test argument
    arg1: String,
    /// Second test argument
    arg2: String,
}

fn complete(typed: &str) -> Vec<&'static str> {
    ["paris", "park", "party"].into_iter().filter(|word| word.starts_with(typed)).collect()
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Embedded {
    /// URI of the resource to embed
    resource_uri: String,
}

fn with_embedded_resource(Embedded { resource_uri }: Embedded) -> Vec<PromptMessage> {
    let resource =
        ResourceContents::text(resource_uri, "text/plain", "Embedded resource content for testing.");
    vec![
        PromptMessage::user(ContentBlock::resource(resource)),
        PromptMessage::user(ContentBlock::text("Please process the embedded resource above.")),
    ]
}

fn with_image() -> Vec<PromptMessage> {
    vec![
        PromptMessage::user(ContentBlock::image(PNG, "image/png")),
        PromptMessage::user(ContentBlock::text("Please analyze the image above.")),
    ]
}

async fn with_question(context: Context) -> Result<String, HandlerError> {
    let form = ElicitRequestFormParams::new("What context should the prompt use?")
        .with_required_field("context", PrimitiveSchemaDefinition::string());
    let answer = context.elicit_form("user_context", form).await?;
    Ok(format!("Use this context: {}", answer.text("context")))
}
