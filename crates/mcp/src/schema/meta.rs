//! What is said about messages.

use alloc::string::String;

use serde_json::{Map, Value};

/// A JSON object, in the order in which it was written.
pub type JsonObject = Map<String, Value>;

/// The members of `_meta`.
pub type MetaObject = JsonObject;
