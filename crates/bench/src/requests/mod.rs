//! Encodes requests and checks their responses. This module does not send anything.
//!
//! [`Requests`] is the interface for a worker: it encodes the request with a given number, and returns the
//! expected response. [`HttpRequests`] implements this trait for HTTP requests, and [`McpRequests`]
//! implements it for MCP messages.

// options of the user
mod url;
mod template;
mod file;

// errors
mod error;
mod expected;
mod source;
mod http;
mod mcp;
mod scenario;

pub use error::{InvalidDigest, InvalidRequest};
pub(crate) use expected::Answer;
pub use expected::Expected;
pub use file::{InvalidRequestsFile, RequestLine, read_lines};
pub use http::{HttpRequest, HttpRequests};
pub use mcp::{Conversation, Endpoint, McpOperation, McpRequests, SessionUse};
pub(crate) use mcp::{Done, MESSAGE_BYTES_MAX, Reading, SingleMessage, read};
pub use scenario::{InvalidScenario, PartRecord, Scenario, ScenarioRecord};
pub(crate) use scenario::{Received, UserState};
pub use source::{Http2Request, Requests};
pub use url::{InvalidLoadUrl, LoadUrl, Origin};
