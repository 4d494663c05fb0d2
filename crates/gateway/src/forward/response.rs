//! The response to the client.

use thruway_client::WebSocketAccept;
use thruway_http1::BodyLength;
use thruway_message::ResponseHead;
use thruway_net::PooledBuffer;
use thruway_server::{Response, StatusCode};

use super::fields::ConnectionOptions;
use crate::Failure;

/// A response with a complete head.
pub(super) struct Begun {
    pub(super) response: Response,
    pub(super) body: Body,
}

impl Begun {
    /// Returns the response, unless it opens a WebSocket without the expected `accept` or without naming the
    /// protocol (RFC 6455 §4.1).
    ///
    /// # Errors
    /// [`Failure::UpgradeUnproven`].
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

/// The part after the head.
pub(super) enum Body {
    /// No content.
    None,
    /// No content, because the request was HEAD or the status has none; the length that it would have, if
    /// known.
    LeftOut(Option<u64>),
    /// A complete body.
    Whole(PooledBuffer),
    /// The first part of a body, and its length if known. The rest is still to come.
    Stream { first: PooledBuffer, length: Option<u64> },
    /// Another protocol.
    Tunnel,
}

impl Body {
    /// Returns the part after `head`, for this body length.
    pub(super) fn of(head: &ResponseHead<'_>, body_length: BodyLength) -> Self {
        if body_length != BodyLength::NONE {
            return Self::Stream { first: PooledBuffer::default(), length: body_length.bytes() };
        }
        // For a response without a body, `Content-Length` is the length that the body would have. The gateway
        // must not invent one (RFC 9110 §8.6).
        let length = head.field("content-length").and_then(|value| value.as_str()?.parse().ok());
        match length {
            Some(0) if head.status != StatusCode::NOT_MODIFIED => Self::None,
            length => Self::LeftOut(length),
        }
    }
}

/// Returns the response that switches the protocol, with the name of the protocol.
pub(super) fn switching(head: &ResponseHead<'_>) -> Response {
    let mut response = passed_on(head);
    append_upgrade(head, &mut response);
    response
}

/// Returns the response without a body. The server writes the fields that frame it.
pub(super) fn response_of(head: &ResponseHead<'_>) -> Response {
    let mut response = passed_on(head);
    // A client must ask for the protocols of the upstream (RFC 9110 §15.5.22), and the gateway forwards such
    // requests.
    if head.status == StatusCode::UPGRADE_REQUIRED && append_upgrade(head, &mut response) {
        response = response.with_connection_upgrade();
    }
    response
}

/// Appends `Upgrade` with the protocols of the upstream. Returns `false` if it names none.
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
