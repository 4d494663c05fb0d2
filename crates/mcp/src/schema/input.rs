//! Multi round-trip requests: what the client is to answer first (2026-07-28). And one kind of question:
//! which directories the client works in.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::elicitation::{ElicitRequest, ElicitResult};
use super::meta::{MetaObject, RequestParams};
use super::sampling::{CreateMessageRequest, CreateMessageResult};

/// That the request will be answered once the client has answered. One of the first two members must be
/// there.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputRequiredResult {
    /// What is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_requests: Option<InputRequests>,
    /// What the client is to bring back as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// What is asked, each under a name that its answer will have.
pub type InputRequests = BTreeMap<String, InputRequest>;

/// The answers.
pub type InputResponses = BTreeMap<String, InputResponse>;

/// Something that is asked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "method")]
pub enum InputRequest {
    /// Of the user.
    #[serde(rename = "elicitation/create")]
    Elicit(ElicitRequest),
    /// Of the model.
    #[serde(rename = "sampling/createMessage")]
    CreateMessage(CreateMessageRequest),
    /// Of the client: which directories it works in.
    #[serde(rename = "roots/list")]
    ListRoots(ListRootsRequest),
}

/// An answer. Nothing but its members says what it answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum InputResponse {
    /// Of the user.
    Elicit(ElicitResult),
    /// Of the model.
    CreateMessage(CreateMessageResult),
    /// Of the client.
    ListRoots(ListRootsResult),
}

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
