//! Sampling: a server lets the client's language model generate text.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::tools::structured_content;
use super::{
    AudioContent, ContentBlock, ImageContent, JsonObject, MetaObject, Role, StructuredContent, TextContent,
    Tool,
};

/// Parameters of a sampling request.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateMessageRequestParams {
    /// The conversation so far.
    pub messages: Vec<SamplingMessage>,
    /// Maximum number of tokens in the answer.
    pub max_tokens: u64,
    /// The system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The MCP servers from which the client should include context: `none`, `thisServer` or
    /// `allServers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_context: Option<String>,
    /// The sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Texts at which the model ends its answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Preferences for the choice of a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// Tools for the model (since MCP revision 2025-11-25).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// The model's permission to use the tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Metadata for the provider of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
}

/// A message of a conversation with a model.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SamplingMessage {
    /// The author of the message.
    pub role: Role,
    /// The content of the message.
    pub content: OneOrMany<SamplingMessageContentBlock>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// One item, or an array of items.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// One item.
    One(T),
    /// Several items (since MCP revision 2025-11-25).
    Many(Vec<T>),
}

/// One block of content in a conversation with a model.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SamplingMessageContentBlock {
    /// Text.
    Text(TextContent),
    /// An image.
    Image(ImageContent),
    /// Audio.
    Audio(AudioContent),
    /// A tool call of the model.
    ToolUse(ToolUseContent),
    /// The result of a tool call.
    ToolResult(ToolResultContent),
}

/// A tool call of the model.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ToolUseContent {
    /// The id of the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments.
    pub input: JsonObject,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// The result of a tool call, for the model.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultContent {
    /// The id of the call.
    pub tool_use_id: String,
    /// The content that the model reads.
    pub content: Vec<ContentBlock>,
    /// The structured content: the result as JSON, for programs instead of the model.
    #[serde(default, deserialize_with = "structured_content", skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<StructuredContent>,
    /// `true` if the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// The model's permission to use tools.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct ToolChoice {
    /// The permitted use: `auto`, `required` or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ToolChoiceMode>,
}

/// The model's permission to use tools.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolChoiceMode {
    /// The model decides whether to use tools.
    Auto,
    /// The model must use at least one tool.
    Required,
    /// The model must not use tools.
    None,
}

/// Preferences for the choice of a model.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelPreferences {
    /// Preferred models, in descending order of preference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<ModelHint>,
    /// The importance of low cost, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_priority: Option<f64>,
    /// The importance of speed, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_priority: Option<f64>,
    /// The importance of the model's abilities, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intelligence_priority: Option<f64>,
}

/// A preferred model.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct ModelHint {
    /// A part of the model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The model's answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateMessageResult {
    /// The author of the message.
    pub role: Role,
    /// The content of the message.
    pub content: OneOrMany<SamplingMessageContentBlock>,
    /// The name of the model that generated the answer.
    pub model: String,
    /// The reason why the model ended its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// A request to the client's language model, without its JSON-RPC envelope.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct CreateMessageRequest {
    /// The question.
    pub params: CreateMessageRequestParams,
}

impl CreateMessageRequestParams {
    /// Returns a request that consists of one message of the user.
    pub fn new(text: impl Into<String>, max_tokens: u64) -> Self {
        Self { messages: alloc::vec![SamplingMessage::user(text)], max_tokens, ..Self::default() }
    }
}

impl SamplingMessage {
    /// Returns a message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        let text = TextContent { text: text.into(), ..TextContent::default() };
        Self {
            role: Role::User,
            content: OneOrMany::One(SamplingMessageContentBlock::Text(text)),
            meta: None,
        }
    }
}

/// Returns an answer of a model with the name `model` that consists of this text.
impl From<String> for CreateMessageResult {
    fn from(text: String) -> Self {
        let text = TextContent { text, ..TextContent::default() };
        Self {
            role: Role::Assistant,
            content: OneOrMany::One(SamplingMessageContentBlock::Text(text)),
            model: "model".into(),
            stop_reason: None,
            meta: None,
        }
    }
}

/// Returns an answer of a model with the name `model` that consists of this text.
impl From<&str> for CreateMessageResult {
    fn from(text: &str) -> Self {
        Self::from(String::from(text))
    }
}

impl CreateMessageResult {
    /// Returns the first text of the answer, or an empty string if the answer contains no text.
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
