//! What a server is and can do, without a handshake (2026-07-28).

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{MetaObject, ServerCapabilities};

/// What a server is and can do.
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
