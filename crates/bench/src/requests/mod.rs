//! What is sent, and what is expected of the answers. Nothing here is sent.
//!
//! [`Requests`] is all that the loop knows: a number becomes octets, and an answer is compared with what was expected. HTTP
//! requests are [`HttpRequests`]; other messages that travel over HTTP can be another implementation.

// how people write it
mod url;
mod template;
mod file;

// what it becomes
mod expected;
mod http;
mod http2;
mod mcp;

pub(crate) use expected::Answer;
pub use expected::{Expected, InvalidDigest};
pub use file::{InvalidRequestsFile, RequestLine, read_lines};
pub use http::{HttpRequest, HttpRequests, InvalidRequest};
pub use mcp::{Conversation, Endpoint, McpOperation, McpRequests, SessionUse};
pub(crate) use mcp::{Done, MESSAGE_BYTES_MAX, Reading, SingleMessage, read};
pub use url::{InvalidUrl, Origin, Url};

pub use http2::Http2Request;
use thruway_http1::ResponseTo;

/// The requests of a load. The same number always gives the same request, so that one can be sent again.
pub trait Requests: Send + Sync {
    /// Appends the octets of request `number`, head and content.
    fn write(&self, number: u64, output: &mut Vec<u8>) -> ResponseTo;

    /// Request `number` for HTTP/2; `None` where it was not prepared for that.
    fn http2(&self, _number: u64) -> Option<Http2Request> {
        None
    }

    /// What is expected of the answer to request `number`.
    fn expected(&self, number: u64) -> &Expected;

    /// What a connection sends and reads where requests do not stand for themselves, which is asked for instead of the
    /// others; `None` where they do.
    fn conversation(&self) -> Option<Conversation> {
        None
    }
}
