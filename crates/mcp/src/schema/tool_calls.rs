//! Tool calls.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::content::{ContentBlock, content_blocks};
use super::input::InputResponses;
use super::meta::{JsonObject, MetaObject};
use super::tools::StructuredContent;

/// Parameters of a tool call.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallToolRequestParams {
    /// The name of the tool.
    pub name: String,
    /// The arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<JsonObject>,
    /// The answers to questions of an earlier round (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_responses: Option<InputResponses>,
    /// The state that the server returned in an earlier round (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// The result of a tool call.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallToolResult {
    /// The content for the model.
    #[serde(default, deserialize_with = "content_blocks")]
    pub content: Vec<ContentBlock>,
    /// The content for programs (from 2025-06-18 on).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<StructuredContent>,
    /// `true` if the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<ToolResultMeta>,
}

/// Metadata of a tool result: an object, kept as JSON text. Most results of a server have the same metadata,
/// and few programs read it.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(transparent)]
pub struct ToolResultMeta(StructuredContent);

impl CallToolResult {
    /// Returns a result with text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![ContentBlock::text(text)], ..Self::default() }
    }

    /// Returns a failed result with its reason. A model may then try again differently.
    pub fn error(reason: impl Into<String>) -> Self {
        Self { is_error: Some(true), ..Self::text(reason) }
    }
}

impl ToolResultMeta {
    /// Returns the member `name`, if it exists and is readable as a value.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.to_object().shift_remove(name)
    }

    /// Returns the members as values. Returns no members if one of them is not readable as a value.
    pub fn to_object(&self) -> MetaObject {
        serde_json::from_str(self.0.as_str()).unwrap_or_default()
    }
}

impl TryFrom<&MetaObject> for ToolResultMeta {
    type Error = serde_json::Error;

    fn try_from(members: &MetaObject) -> Result<Self, serde_json::Error> {
        StructuredContent::from_value(members).map(Self)
    }
}

impl<'de> Deserialize<'de> for ToolResultMeta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = StructuredContent::deserialize(deserializer)?;
        if written.as_str().starts_with('{') {
            Ok(Self(written))
        } else {
            Err(de::Error::custom("`_meta` is not an object"))
        }
    }
}
