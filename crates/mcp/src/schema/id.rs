//! What tells requests apart.

use alloc::string::String;

use serde::{Deserialize, Deserializer, Serialize};

use crate::json_rpc::Id;

/// The id of a request: an integer or a string.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(untagged)]
pub enum RequestId {
    /// An integer.
    Integer(i64),
    /// A string.
    String(String),
}

/// What the progress of a request is reported under: an integer or a string.
pub type ProgressToken = RequestId;

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Id::deserialize(deserializer).map(|id| id.to_owned())
    }
}
