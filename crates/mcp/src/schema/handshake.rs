//! How client and server introduce themselves: the handshake of the legacy era with what belongs to its
//! sessions, and discovery without one.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{ClientCapabilities, Implementation, LoggingLevel, MetaObject, ServerCapabilities};

/// What a client says at the beginning of a session.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeRequestParams {
    /// The revision it would like.
    pub protocol_version: String,
    /// What it can do.
    pub capabilities: ClientCapabilities,
    /// What it says it is.
    pub client_info: Implementation,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// What a server says at the beginning of a session.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// The revision of the session.
    pub protocol_version: String,
    /// What it can do.
    pub capabilities: ServerCapabilities,
    /// What it says it is.
    pub server_info: Implementation,
    /// What a model should know of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// From which level on log messages are wanted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SetLevelRequestParams {
    /// The level.
    pub level: LoggingLevel,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// The resource that a client wants to know about, or no longer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SubscribeRequestParams {
    /// Which.
    pub uri: String,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// What a server is and can do, without a handshake (2026-07-28).
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscoverResult {
    /// The revisions that it speaks.
    pub supported_versions: Vec<String>,
    /// What it can do.
    pub capabilities: ServerCapabilities,
    /// What a model should know of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}
