//! Resources.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::content::{
    Annotations, Base64Data, BlobResourceContents, Resource, ResourceContents, TextResourceContents,
};
use super::implementation::Icon;
use super::input::InputResponses;
use super::meta::MetaObject;

/// Resources whose URIs have something in common.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceTemplate {
    /// Where they are, with expressions for what differs (RFC 6570).
    pub uri_template: String,
    /// The name, for programs.
    pub name: String,
    /// The name, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Their type, if it is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Whom they are for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Pictures of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// What is said about them.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// The resources there are.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListResourcesResult {
    /// One page of them.
    pub resources: Vec<Resource>,
    /// Where the list goes on; absent at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// The templates of resources there are.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListResourceTemplatesResult {
    /// One page of them.
    pub resource_templates: Vec<ResourceTemplate>,
    /// Where the list goes on; absent at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// Which resource is read.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadResourceRequestParams {
    /// Where it is.
    pub uri: String,
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

/// Which resource has changed.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct ResourceUpdatedNotificationParams {
    /// Where it is.
    pub uri: String,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// What a resource contains.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct ReadResourceResult {
    /// One piece, or several.
    pub contents: Vec<ResourceContents>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

impl ResourceTemplate {
    /// Resources of no known type.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri_template: uri_template.into(), name: name.into(), ..Self::default() }
    }

    /// The same with what they are.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// The same with their type.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }
}

impl ReadResourceResult {
    /// Text.
    pub fn text(uri: String, mime_type: Option<String>, text: String) -> Self {
        let contents = TextResourceContents { uri, mime_type, text, meta: None };
        Self { contents: vec![ResourceContents::Text(contents)], meta: None }
    }

    /// Octets.
    pub fn blob(uri: String, mime_type: Option<String>, blob: Base64Data) -> Self {
        let contents = BlobResourceContents { uri, mime_type, blob, meta: None };
        Self { contents: vec![ResourceContents::Blob(contents)], meta: None }
    }
}
