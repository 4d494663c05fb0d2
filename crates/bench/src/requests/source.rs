//! The interface through which a worker gets the requests of a load.

use std::sync::Arc;

use bytes::Bytes;
use http::header::TE;
use http::uri::Scheme;
use thruway_client::http2::ConvertedRequest;
use thruway_http1::ResponseTo;

use super::expected::Expected;
use super::mcp::Conversation;
use super::scenario::Scenario;

/// The requests of a load, each with a number. The same number always gives the same request, so that a
/// worker can send a request again.
pub trait Requests: Send + Sync {
    /// Appends the head and the body of request `number` to `output`.
    fn write(&self, number: u64, output: &mut Vec<u8>) -> ResponseTo;

    /// Returns request `number` for HTTP/2, or `None` if the requests were not prepared for HTTP/2.
    fn http2(&self, _number: u64) -> Option<Http2Request> {
        None
    }

    /// Returns the expected response to request `number`.
    fn expected(&self, number: u64) -> &Expected;

    /// If the requests of a connection depend on each other, returns the state machine for a new connection.
    /// The worker then uses it to encode requests and to check responses. Returns `None` if the requests are
    /// independent.
    fn conversation(&self) -> Option<Conversation> {
        None
    }

    /// Returns the scenario, if virtual users run a scenario. The worker then uses it to encode requests and to
    /// check responses, and never calls the other methods.
    fn scenario(&self) -> Option<&Arc<Scenario>> {
        None
    }
}

/// A request in the form that the `h2` library expects.
#[derive(Clone, Debug)]
pub struct Http2Request {
    /// The head of the request.
    pub head: http::Request<()>,
    /// The body of the request.
    pub content: Bytes,
}

impl Http2Request {
    /// Converts the HTTP/1.1 request `bytes` to HTTP/2. Returns `None` if HTTP/2 does not allow the
    /// request. Removes the `TE` header unless the user has set it, because searching a non-empty header
    /// section costs time on both sides.
    pub(super) fn of_bytes(bytes: &[u8], is_secured: bool, has_te: bool) -> Option<Self> {
        let scheme = if is_secured { Scheme::HTTPS } else { Scheme::HTTP };
        let ConvertedRequest { mut head, used, .. } = ConvertedRequest::of(bytes, scheme, false)?;
        if !has_te {
            head.headers_mut().remove(TE);
        }
        if head.headers().is_empty() {
            // Copying an emptied map costs as much as copying a full map. For this reason, a new map
            // replaces the emptied map.
            *head.headers_mut() = http::HeaderMap::new();
        }
        Some(Self { head, content: Bytes::copy_from_slice(&bytes[used..]) })
    }
}
