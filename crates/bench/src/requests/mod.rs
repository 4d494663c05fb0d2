//! Requests and the expected responses. This module sends nothing.
//!
//! [`Requests`] is the interface of the loop: it turns a number into bytes and compares a response with the
//! expectations. [`HttpRequests`] implements it for HTTP requests; other messages over HTTP can have other
//! implementations.

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

pub use error::{InvalidDigest, InvalidRequest};
pub(crate) use expected::Answer;
pub use expected::Expected;
pub use file::{InvalidRequestsFile, RequestLine, read_lines};
pub use http::{HttpRequest, HttpRequests};
pub use mcp::{Conversation, Endpoint, McpOperation, McpRequests, SessionUse};
pub(crate) use mcp::{Done, MESSAGE_BYTES_MAX, Reading, SingleMessage, read};
pub use source::{Http2Request, Requests};
pub use url::{InvalidLoadUrl, LoadUrl, Origin};
