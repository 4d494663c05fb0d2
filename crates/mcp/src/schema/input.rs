//! Multi round-trip requests: questions that the client must answer first (2026-07-28). Also contains one
//! kind of question: the client's working directories.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::elicitation::{ElicitRequest, ElicitResult};
use super::meta::{MetaObject, RequestParams};
use super::sampling::{CreateMessageRequest, CreateMessageResult};

/// A result that asks the client for input. At least one of the first two members is present.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputRequiredResult {
    /// The questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_requests: Option<InputRequests>,
    /// State that the client must return unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// Questions by name. Each answer has the same name.
pub type InputRequests = BTreeMap<String, InputRequest>;

/// Answers by name.
pub type InputResponses = BTreeMap<String, InputResponse>;

/// A question.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "method")]
pub enum InputRequest {
    /// A question to the user.
    #[serde(rename = "elicitation/create")]
    Elicit(ElicitRequest),
    /// A question to the model.
    #[serde(rename = "sampling/createMessage")]
    CreateMessage(CreateMessageRequest),
    /// A question to the client about its working directories.
    #[serde(rename = "roots/list")]
    ListRoots(ListRootsRequest),
}

/// An answer. Only its members show which kind of question it answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum InputResponse {
    /// The user's answer.
    Elicit(ElicitResult),
    /// The model's answer.
    CreateMessage(CreateMessageResult),
    /// The client's answer.
    ListRoots(ListRootsResult),
}

/// A working directory of the client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Root {
    /// The location: a `file:` URI.
    pub uri: String,
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// The working directories of the client.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct ListRootsResult {
    /// All working directories.
    pub roots: Vec<Root>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// A request for the working directories, without its JSON-RPC envelope.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct ListRootsRequest {
    /// Only metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<RequestParams>,
}
