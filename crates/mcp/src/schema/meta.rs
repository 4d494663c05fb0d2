//! What is said about messages, parameters that say nothing else, and how long a result may be kept.

use alloc::string::String;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json_rpc::RequestId;

/// A JSON object, in the order in which it was written.
pub type JsonObject = Map<String, Value>;

/// The members of `_meta`.
pub type MetaObject = JsonObject;

/// The parameters of a request that has none of its own.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct RequestParams {
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// The parameters of a notification that has none of its own.
pub type NotificationParams = RequestParams;

/// The parameters of a request for a list.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct PaginatedRequestParams {
    /// Where the list is to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// What the progress of a request is reported under: an integer or a string.
pub type ProgressToken = RequestId;

/// How long a result may be kept, and for whom (2026-07-28).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheHint {
    /// How long, in milliseconds.
    pub ttl_ms: u64,
    /// For whom.
    pub cache_scope: CacheScope,
}

/// For whom a result may be kept.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheScope {
    /// For everybody.
    Public,
    /// For whoever asked.
    #[default]
    Private,
}
