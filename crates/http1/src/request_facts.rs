//! Describes the properties of a request that affect the response. Also describes the framing of a response
//! body.

use thruway_message::{StatusCode, Version};

use crate::body_length::{BodyLength, ResponseTo};

/// The properties of a request that determine the framing of its response and the reuse of the connection.
/// The type is small and borrows no data, so the caller can keep a value until the response is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestFacts {
    /// The HTTP version of the request.
    pub version: Version,
    /// The kind of the request: CONNECT, HEAD or another method.
    pub response_to: ResponseTo,
    /// The rule that determines the end of the request body.
    pub body_length: BodyLength,
    /// `true` if the client and
    /// [`Limits::requests_per_connection`](crate::Limits::requests_per_connection) allow keep-alive after
    /// the response (RFC 9112 §9.3).
    pub is_persistent: bool,
    /// `true` if the client waits for `100 (Continue)` before it sends the content (RFC 9110 §10.1.1).
    pub expects_continue: bool,
    /// `true` if the client asks for another protocol or for a tunnel. The bytes after such a request may
    /// belong to a protocol other than HTTP (RFC 9110 §7.8 and §9.3.6).
    pub wants_tunnel: bool,
}

impl RequestFacts {
    /// Facts about an HTTP/1.1 request without content.
    pub(crate) const PLAIN: Self = Self {
        version: Version::Http11,
        response_to: ResponseTo::Other,
        body_length: BodyLength::NONE,
        is_persistent: true,
        expects_continue: false,
        wants_tunnel: false,
    };

    /// Returns `true` if the method of the request is CONNECT.
    pub const fn is_connect(&self) -> bool {
        matches!(self.response_to, ResponseTo::Connect)
    }
}

/// The framing of a response body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResponseBody {
    /// No body and no framing field: for the statuses 1xx, 204 and 304, and for responses that open a
    /// tunnel.
    Absent,
    /// The response has a `Content-Length` field, and a body with this number of bytes.
    Bytes(u64),
    /// The response has the field `Transfer-Encoding: chunked`, and a body in chunks.
    Chunked,
    /// The response has no framing field. The server closes the connection to end the body. Servers use
    /// this framing for HTTP/1.0 clients.
    UntilClose,
    /// The response has no body, but has the framing fields that a response to GET would have. Responses to
    /// HEAD use this framing. The number is the content length of the response to GET, or `None` if the
    /// length is unknown.
    OnlyFields(Option<u64>),
}

impl ResponseBody {
    /// Returns the framing of a response to `request` with the given status. `bytes` is the length of the
    /// content, if known (RFC 9110 §8.6 and §9.3.2, RFC 9112 §6.1 and §6.2).
    #[inline]
    pub fn for_response(request: &RequestFacts, status: StatusCode, bytes: Option<u64>) -> Self {
        match (request.response_to, bytes) {
            _ if status.is_without_content() => Self::Absent,
            (ResponseTo::Connect, _) if status.is_success() => Self::Absent,
            (ResponseTo::Head, bytes) => Self::OnlyFields(bytes),
            (_, Some(bytes)) => Self::Bytes(bytes),
            (_, None) if request.version == Version::Http10 => Self::UntilClose,
            (_, None) => Self::Chunked,
        }
    }

    /// Returns `true` if content follows the head.
    pub const fn has_content(self) -> bool {
        !matches!(self, Self::Absent | Self::OnlyFields(_) | Self::Bytes(0))
    }
}
