//! What the connection must know of a request while it is answered, and how the body of the response is
//! framed.

use thruway_message::{StatusCode, Version};

use crate::body_length::{BodyLength, ResponseTo};

/// What of a request decides how its response is framed and what becomes of the connection. Small, and free
/// of the request's octets, so that it can be kept until the response is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestFacts {
    /// The version the client speaks.
    pub version: Version,
    /// What kind of request the response answers.
    pub response_to: ResponseTo,
    /// How the end of the request's body is found.
    pub body_length: BodyLength,
    /// Whether the client and the limits let the connection go on after the response (RFC 9112 §9.3).
    pub is_persistent: bool,
    /// Whether the client waits for `100 (Continue)` before it sends the content (RFC 9110 §10.1.1).
    pub expects_continue: bool,
    /// Whether the client asks for another protocol, or for a tunnel: what follows the request may not be
    /// HTTP (RFC 9110 §7.8 and §9.3.6).
    pub wants_tunnel: bool,
}

impl RequestFacts {
    /// A request of HTTP/1.1 without content.
    pub(crate) const PLAIN: Self = Self {
        version: Version::Http11,
        response_to: ResponseTo::Other,
        body_length: BodyLength::NONE,
        is_persistent: true,
        expects_continue: false,
        wants_tunnel: false,
    };

    /// Whether the request is a CONNECT.
    pub const fn is_connect(&self) -> bool {
        matches!(self.response_to, ResponseTo::Connect)
    }
}

/// How the body of a response is written, and which field says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResponseBody {
    /// No body and no field about it: 1xx, 204, 304, a tunnel.
    Absent,
    /// `Content-Length`, and this many octets.
    Octets(u64),
    /// `Transfer-Encoding: chunked`, and chunks.
    Chunked,
    /// No field; the close of the connection ends it. For clients of HTTP/1.0.
    UntilClose,
    /// The fields that a response to GET would have, and no body: the answer to HEAD.
    OnlyFields(Option<u64>),
}

impl ResponseBody {
    /// How to send content of `octets`, if that is known, as the response to a request (RFC 9110 §8.6 and
    /// §9.3.2, RFC 9112 §6.1 and §6.2).
    #[inline]
    pub fn for_response(request: &RequestFacts, status: StatusCode, octets: Option<u64>) -> Self {
        match (request.response_to, octets) {
            _ if status.is_without_content() => Self::Absent,
            (ResponseTo::Connect, _) if status.is_success() => Self::Absent,
            (ResponseTo::Head, octets) => Self::OnlyFields(octets),
            (_, Some(octets)) => Self::Octets(octets),
            (_, None) if request.version == Version::Http10 => Self::UntilClose,
            (_, None) => Self::Chunked,
        }
    }

    /// Whether octets of content follow the head.
    pub const fn has_content(self) -> bool {
        !matches!(self, Self::Absent | Self::OnlyFields(_) | Self::Octets(0))
    }
}
