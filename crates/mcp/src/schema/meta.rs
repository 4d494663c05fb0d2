//! What is said about messages, and parameters that say nothing else.

use alloc::string::String;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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
