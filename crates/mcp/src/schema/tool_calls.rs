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
    /// The answers to the server's elicitation, sampling and roots requests in an earlier round (MCP revision
    /// 2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_responses: Option<InputResponses>,
    /// The state that the server returned in an earlier round (MCP revision 2026-07-28).
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
    /// The content that the model reads.
    #[serde(default, deserialize_with = "content_blocks")]
    pub content: Vec<ContentBlock>,
    /// The structured content (since MCP revision 2025-06-18): the result as JSON, for programs instead of
    /// the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<StructuredContent>,
    /// `true` if the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<ToolResultMeta>,
}

/// Metadata of a tool result, kept as the text of a JSON object. Parsing the text early would be
/// wasteful: most results of a server have the same metadata, and few programs read it.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(transparent)]
pub struct ToolResultMeta(StructuredContent);

impl CallToolResult {
    /// Returns a successful result that contains `text`.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![ContentBlock::text(text)], ..Self::default() }
    }

    /// Returns a failed result that contains the reason of the failure. A model can use the reason to
    /// correct its next call.
    pub fn error(reason: impl Into<String>) -> Self {
        Self { is_error: Some(true), ..Self::text(reason) }
    }
}

impl ToolResultMeta {
    /// Returns the value of the member `name`. Returns `None` if the metadata has no such member, or if
    /// [`to_object`](Self::to_object) cannot convert the metadata.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.to_object().shift_remove(name)
    }

    /// Returns the members as [`Value`]s. Returns an empty object if `Value` cannot express a member.
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
