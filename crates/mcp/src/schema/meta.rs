//! Metadata of messages, parameters without other members, and cache hints.

use alloc::string::String;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json_rpc::RequestId;

/// A JSON object that keeps the order of its members.
pub type JsonObject = Map<String, Value>;

/// The object `_meta`, which contains metadata.
pub type MetaObject = JsonObject;

/// Parameters of a request, for methods that have no parameters except metadata.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct RequestParams {
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// Parameters of a notification, for notifications that have no parameters except metadata.
pub type NotificationParams = RequestParams;

/// Parameters of a request for a list.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct PaginatedRequestParams {
    /// The cursor of the requested page, or `None` for the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// The token that links progress notifications to a request: an integer or a string.
pub type ProgressToken = RequestId;

/// The permission to cache a result, and its limits (MCP revision 2026-07-28).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheHint {
    /// Time for which a result may be cached, in milliseconds.
    pub ttl_ms: u64,
    /// The callers that may share the cached result.
    pub cache_scope: CacheScope,
}

/// The callers that may share a cached result.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheScope {
    /// All callers.
    Public,
    /// Only callers with the same authorization as the original caller.
    #[default]
    Private,
}
