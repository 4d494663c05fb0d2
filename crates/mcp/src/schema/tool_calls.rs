//! Calls of tools.

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

/// Which tool is called.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallToolRequestParams {
    /// The tool.
    pub name: String,
    /// What it is called with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<JsonObject>,
    /// The answers to what an earlier round asked (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_responses: Option<InputResponses>,
    /// What an earlier round gave the client to bring back (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// What calling a tool came to.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallToolResult {
    /// What a model is to read.
    #[serde(default, deserialize_with = "content_blocks")]
    pub content: Vec<ContentBlock>,
    /// What a program is to read (from 2025-06-18 on).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<StructuredContent>,
    /// Whether the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<ToolResultMeta>,
}

/// What is said about the result of a tool: an object, kept as it is written. Most results of a server say
/// the same, and nobody looks.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(transparent)]
pub struct ToolResultMeta(StructuredContent);

impl CallToolResult {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![ContentBlock::text(text)], ..Self::default() }
    }

    /// A call that failed, and why: for a model that may try otherwise.
    pub fn error(reason: impl Into<String>) -> Self {
        Self { is_error: Some(true), ..Self::text(reason) }
    }
}

impl ToolResultMeta {
    /// The member `name`, if there is one that a value can hold.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.to_object().shift_remove(name)
    }

    /// The members as values; none if one of them is beyond what a value can hold.
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
            Err(de::Error::custom("`_meta` is no object"))
        }
    }
}
