//! Source of the requests of a load, as the loop sees it.

use bytes::Bytes;
use http::header::TE;
use http::uri::Scheme;
use thruway_client::http2::ConvertedRequest;
use thruway_http1::ResponseTo;

use super::expected::Expected;
use super::mcp::Conversation;

/// The requests of a load. The same number always gives the same request, so that one can be sent again.
pub trait Requests: Send + Sync {
    /// Appends the bytes of request `number`, header and body.
    fn write(&self, number: u64, output: &mut Vec<u8>) -> ResponseTo;

    /// Request `number` for HTTP/2; `None` where it was not prepared for that.
    fn http2(&self, _number: u64) -> Option<Http2Request> {
        None
    }

    /// Returns the expected response to request `number`.
    fn expected(&self, number: u64) -> &Expected;

    /// Returns the state machine of a connection if requests depend on each other; the loop then uses it
    /// instead of the other methods. `None` if requests are independent.
    fn conversation(&self) -> Option<Conversation> {
        None
    }
}

/// A request as the library for HTTP/2 takes it.
#[derive(Clone, Debug)]
pub struct Http2Request {
    /// Its head.
    pub head: http::Request<()>,
    /// Its content.
    pub content: Bytes,
}

impl Http2Request {
    /// Parses the HTTP/1.1 request `bytes` for HTTP/2; `None` if HTTP/2 does not allow it. `TE` is kept only
    /// if the user set it: a search in the header section costs both sides more than an absent header.
    pub(super) fn of_bytes(bytes: &[u8], is_secured: bool, has_te: bool) -> Option<Self> {
        let scheme = if is_secured { Scheme::HTTPS } else { Scheme::HTTP };
        let ConvertedRequest { mut head, used, .. } = ConvertedRequest::of(bytes, scheme, false)?;
        if !has_te {
            head.headers_mut().remove(TE);
        }
        if head.headers().is_empty() {
            // An empty map that was in use is copied like a full one.
            *head.headers_mut() = http::HeaderMap::new();
        }
        Some(Self { head, content: Bytes::copy_from_slice(&bytes[used..]) })
    }
}
