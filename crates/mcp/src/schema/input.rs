//! Multi round-trip requests (MCP revision 2026-07-28). The server answers a request with questions:
//! elicitation, sampling or roots requests. The client then sends its request again with the answers. Roots
//! are the client's working directories. The types for roots requests are also here.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::elicitation::{ElicitRequest, ElicitResult};
use super::meta::{MetaObject, RequestParams};
use super::sampling::{CreateMessageRequest, CreateMessageResult};

/// A result that asks the client for input. At least one of `input_requests` and `request_state` is
/// present.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputRequiredResult {
    /// The elicitation, sampling and roots requests to the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_requests: Option<InputRequests>,
    /// State of the server, which the client must return unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// Elicitation, sampling and roots requests by name. The client returns each answer under the name of its
/// request.
pub type InputRequests = BTreeMap<String, InputRequest>;

/// The client's answers, by the name of the elicitation, sampling or roots request.
pub type InputResponses = BTreeMap<String, InputResponse>;

/// An elicitation, sampling or roots request of the server to the client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "method")]
pub enum InputRequest {
    /// A question to the user (elicitation).
    #[serde(rename = "elicitation/create")]
    Elicit(ElicitRequest),
    /// A request to the client's language model (sampling).
    #[serde(rename = "sampling/createMessage")]
    CreateMessage(CreateMessageRequest),
    /// A request for the client's working directories (roots).
    #[serde(rename = "roots/list")]
    ListRoots(ListRootsRequest),
}

/// The client's answer to an elicitation, sampling or roots request. An answer has no type tag in JSON, so
/// its members identify the kind of answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum InputResponse {
    /// The user's answer.
    Elicit(ElicitResult),
    /// The model's answer.
    CreateMessage(CreateMessageResult),
    /// The client's list of working directories.
    ListRoots(ListRootsResult),
}

/// A working directory of the client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Root {
    /// The location of the directory: a `file:` URI.
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
    /// The parameters, which contain only metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<RequestParams>,
}
