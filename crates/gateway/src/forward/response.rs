//! The response to the client.

use thruway_client::WebSocketAccept;
use thruway_http1::BodyLength;
use thruway_message::ResponseHead;
use thruway_net::PooledBuffer;
use thruway_server::{Response, StatusCode};

use super::fields::ConnectionOptions;
use crate::Failure;

/// A response of the upstream with a complete head. The body of the response may be incomplete.
pub(super) struct Begun {
    pub(super) response: Response,
    pub(super) body: Body,
}

impl Begun {
    /// Checks the WebSocket handshake (RFC 6455 §4.1), and returns the response. A response that opens a
    /// WebSocket must contain the expected value `accept` and the protocol name `websocket`.
    ///
    /// # Errors
    /// Returns [`Failure::UpgradeUnproven`] if the check fails.
    pub(super) fn proven(self, accept: &WebSocketAccept) -> Result<Self, Failure> {
        if !matches!(self.body, Body::Tunnel) {
            return Ok(self);
        }
        let values =
            |name: &'static str| self.response.field_lines().iter().filter(move |line| line.name.is(name));
        let mut proofs = values("sec-websocket-accept");
        let is_proof = proofs.next().is_some_and(|line| line.value.as_bytes() == accept);
        let is_only = proofs.next().is_none();
        let is_named = values("upgrade").any(|line| line.value.as_bytes().eq_ignore_ascii_case(b"websocket"));
        if is_proof && is_only && is_named { Ok(self) } else { Err(Failure::UpgradeUnproven) }
    }

    /// Returns `true` if the response is complete.
    pub(super) const fn is_complete(&self) -> bool {
        !matches!(self.body, Body::Stream { .. })
    }
}

/// The part of a response after its head.
pub(super) enum Body {
    /// An empty body.
    None,
    /// No body, because the request was HEAD or the status allows no body. This variant contains the length
    /// that the body would have, if this length is known.
    LeftOut(Option<u64>),
    /// A complete body.
    Whole(PooledBuffer),
    /// The first part of a body, and the length of the whole body if it is known. The remaining part has not
    /// arrived yet.
    Stream { first: PooledBuffer, length: Option<u64> },
    /// A tunnel for another protocol.
    Tunnel,
}

impl Body {
    /// Returns the part of the response after `head`. `body_length` is the length of the body.
    pub(super) fn of(head: &ResponseHead<'_>, body_length: BodyLength) -> Self {
        if body_length != BodyLength::NONE {
            return Self::Stream { first: PooledBuffer::default(), length: body_length.bytes() };
        }
        // In a response without a body, `Content-Length` is the length that the body would have. The
        // gateway must not invent such a length (RFC 9110 §8.6).
        let length = head.field("content-length").and_then(|value| value.as_str()?.parse().ok());
        match length {
            Some(0) if head.status != StatusCode::NOT_MODIFIED => Self::None,
            length => Self::LeftOut(length),
        }
    }
}

/// Returns the response that tells the client to switch the protocol. The response contains the name of the
/// new protocol.
pub(super) fn switching(head: &ResponseHead<'_>) -> Response {
    let mut response = passed_on(head);
    append_upgrade(head, &mut response);
    response
}

/// Returns the response to the client, without a body. `thruway-server` writes the headers that frame the
/// body.
pub(super) fn response_of(head: &ResponseHead<'_>) -> Response {
    let mut response = passed_on(head);
    // The status 426 means that the client must switch to one of the protocols in `Upgrade` (RFC 9110
    // §15.5.22). The gateway forwards this header, because it also forwards requests with `Upgrade`.
    if head.status == StatusCode::UPGRADE_REQUIRED && append_upgrade(head, &mut response) {
        response = response.with_connection_upgrade();
    }
    response
}

/// Appends the `Upgrade` header of the upstream to `response`. Returns `false` if the upstream sent no such
/// header.
fn append_upgrade(head: &ResponseHead<'_>, response: &mut Response) -> bool {
    let lines = head.field_lines.iter().filter(|line| line.name.is("upgrade"));
    lines.map(|line| response.append_line(line)).count() > 0
}

fn passed_on(head: &ResponseHead<'_>) -> Response {
    let mut response = Response::new(head.status);
    let options = ConnectionOptions::of(head.field_lines);
    response.append_kept(head.field_lines, |line| !options.include(line.name));
    response
}
