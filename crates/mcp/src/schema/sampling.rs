//! Asking the client's model.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::tools::structured_content;
use super::{
    AudioContent, ContentBlock, ImageContent, JsonObject, MetaObject, Role, StructuredContent, TextContent,
    Tool,
};

/// What a model is asked.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateMessageRequestParams {
    /// What was said so far.
    pub messages: Vec<SamplingMessage>,
    /// The most that the model may say.
    pub max_tokens: u64,
    /// What the model is told beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Whose context it gets: `none`, `thisServer` or `allServers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_context: Option<String>,
    /// How much is left to chance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Where the model is to stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Which model would be best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// Tools for the model (from 2025-11-25 on).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// How it may use them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// What is passed on to whoever runs the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
}

/// What one side said.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SamplingMessage {
    /// Who.
    pub role: Role,
    /// What.
    pub content: OneOrMany<SamplingMessageContentBlock>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// One, or an array.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// One.
    One(T),
    /// Several (from 2025-11-25 on).
    Many(Vec<T>),
}

/// A piece of a conversation with a model.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SamplingMessageContentBlock {
    /// Text.
    Text(TextContent),
    /// A picture.
    Image(ImageContent),
    /// Sound.
    Audio(AudioContent),
    /// The model calls a tool.
    ToolUse(ToolUseContent),
    /// What the tool answered.
    ToolResult(ToolResultContent),
}

/// A model calls a tool.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ToolUseContent {
    /// What tells calls apart.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments.
    pub input: JsonObject,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// What a tool answered a model.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultContent {
    /// Which call.
    pub tool_use_id: String,
    /// What a model is to read.
    pub content: Vec<ContentBlock>,
    /// What a program is to read.
    #[serde(default, deserialize_with = "structured_content", skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<StructuredContent>,
    /// Whether the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// How a model may use tools.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct ToolChoice {
    /// Whether.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ToolChoiceMode>,
}

/// Whether a model uses tools.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolChoiceMode {
    /// If it wants to.
    Auto,
    /// At least one.
    Required,
    /// None.
    None,
}

/// Which model would be best.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelPreferences {
    /// Models to take, the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<ModelHint>,
    /// How much cost matters, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_priority: Option<f64>,
    /// How much speed matters, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_priority: Option<f64>,
    /// How much the model's abilities matter, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intelligence_priority: Option<f64>,
}

/// A model to take.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct ModelHint {
    /// A part of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What the model said.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateMessageResult {
    /// Who.
    pub role: Role,
    /// What.
    pub content: OneOrMany<SamplingMessageContentBlock>,
    /// Which model.
    pub model: String,
    /// Why it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// A request to ask the client's model, without what its envelope has.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct CreateMessageRequest {
    /// What the model is asked.
    pub params: CreateMessageRequestParams,
}

impl CreateMessageRequestParams {
    /// One message of the user.
    pub fn new(text: impl Into<String>, max_tokens: u64) -> Self {
        Self { messages: alloc::vec![SamplingMessage::user(text)], max_tokens, ..Self::default() }
    }
}

impl SamplingMessage {
    /// What a person says.
    pub fn user(text: impl Into<String>) -> Self {
        let text = TextContent { text: text.into(), ..TextContent::default() };
        Self {
            role: Role::User,
            content: OneOrMany::One(SamplingMessageContentBlock::Text(text)),
            meta: None,
        }
    }
}

impl CreateMessageResult {
    /// The text of what the model said; empty if it said none.
    pub fn text(&self) -> &str {
        let blocks = match &self.content {
            OneOrMany::One(block) => core::slice::from_ref(block),
            OneOrMany::Many(blocks) => blocks,
        };
        let texts = blocks.iter().find_map(|block| match block {
            SamplingMessageContentBlock::Text(content) => Some(content.text.as_str()),
            _ => None,
        });
        texts.unwrap_or_default()
    }
}
