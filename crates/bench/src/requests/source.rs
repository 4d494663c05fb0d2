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

    /// Returns request `number` for HTTP/2, or `None` if the requests were not prepared for HTTP/2.
    fn http2(&self, _number: u64) -> Option<Http2Request> {
        None
    }

    /// Returns the expected response to request `number`.
    fn expected(&self, number: u64) -> &Expected;

    /// Returns the state machine of a connection if requests depend on each other. The loop then uses it
    /// instead of the other methods. `None` if requests are independent.
    fn conversation(&self) -> Option<Conversation> {
        None
    }
}

/// A request in the form of the HTTP/2 library.
#[derive(Clone, Debug)]
pub struct Http2Request {
    /// The head.
    pub head: http::Request<()>,
    /// The body.
    pub content: Bytes,
}

impl Http2Request {
    /// Parses the HTTP/1.1 request `bytes` for HTTP/2. Returns `None` if HTTP/2 does not allow it. Keeps `TE`
    /// only if the user has set it: a search in the header section costs both sides more than an absent
    /// header.
    pub(super) fn of_bytes(bytes: &[u8], is_secured: bool, has_te: bool) -> Option<Self> {
        let scheme = if is_secured { Scheme::HTTPS } else { Scheme::HTTP };
        let ConvertedRequest { mut head, used, .. } = ConvertedRequest::of(bytes, scheme, false)?;
        if !has_te {
            head.headers_mut().remove(TE);
        }
        if head.headers().is_empty() {
            // A map that was cleared costs as much to copy as a full one, so this is a new map.
            *head.headers_mut() = http::HeaderMap::new();
        }
        Some(Self { head, content: Bytes::copy_from_slice(&bytes[used..]) })
    }
}
