//! What is sent, and what is expected of the answers. Nothing here is sent.
//!
//! [`Requests`] is all that the loop knows: a number becomes octets, and an answer is compared with what was
//! expected. HTTP requests are [`HttpRequests`]; other messages that travel over HTTP can be another
//! implementation.

// how people write it
mod url;
mod template;
mod file;

// what it becomes
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
