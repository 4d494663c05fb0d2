//! Asking which directories the client works in.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{MetaObject, RequestParams};

/// A directory that the client works in.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Root {
    /// Where it is: a `file:` URI.
    pub uri: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// The directories that the client works in.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct ListRootsResult {
    /// All of them.
    pub roots: Vec<Root>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// A request for the directories, without what its envelope has.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct ListRootsRequest {
    /// Nothing but what is said about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<RequestParams>,
}
