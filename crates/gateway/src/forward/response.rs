//! The response to the client.

use thruway_client::WebSocketAccept;
use thruway_http1::BodyLength;
use thruway_message::ResponseHead;
use thruway_net::PooledBuffer;
use thruway_server::{Content, Response, StatusCode};

use super::fields::ConnectionOptions;

/// A response of the upstream with a complete head.
pub(super) struct Begun {
    /// The response, with its body if the body is complete.
    pub(super) response: Response,
    pub(super) rest: Rest,
}

/// The part of a response that is not in [`Begun::response`].
pub(super) enum Rest {
    /// The response is complete.
    Complete,
    /// The first part of a body, and the length of the whole body if it is known. The remaining part has not
    /// arrived yet.
    Stream { first: PooledBuffer, length: Option<u64> },
    /// A tunnel for another protocol.
    Tunnel,
}

impl Begun {
    /// Returns the response with `head`. `body_length` is the length of the body.
    #[inline]
    pub(super) fn of(head: &ResponseHead<'_>, body_length: BodyLength) -> Self {
        let mut response = response_of(head);
        if body_length != BodyLength::NONE {
            let rest = Rest::Stream { first: PooledBuffer::default(), length: body_length.bytes() };
            return Self { response, rest };
        }
        // In a response without a body, because the request was HEAD or the status allows no body,
        // `Content-Length` is the length that the body would have. The gateway must not invent such a length
        // (RFC 9110 §8.6).
        let length = head.field("content-length").and_then(|value| value.as_str()?.parse().ok());
        if length != Some(0) || head.status == StatusCode::NOT_MODIFIED {
            response.set_content(Content::left_out(length));
        }
        Self { response, rest: Rest::Complete }
    }

    /// Returns the response that makes the connection a tunnel.
    pub(super) fn of_tunnel(head: &ResponseHead<'_>) -> Self {
        Self { response: switching(head), rest: Rest::Tunnel }
    }

    /// Checks the WebSocket handshake (RFC 6455 §4.1). Returns `false` if the response opens a WebSocket
    /// without the expected value `accept` or without the protocol name `websocket`.
    pub(super) fn proves(&self, accept: &WebSocketAccept) -> bool {
        if !matches!(self.rest, Rest::Tunnel) {
            return true;
        }
        let values =
            |name: &'static str| self.response.field_lines().iter().filter(move |line| line.name.is(name));
        let mut proofs = values("sec-websocket-accept");
        let is_proof = proofs.next().is_some_and(|line| line.value.as_bytes() == accept);
        let is_only = proofs.next().is_none();
        let is_named = values("upgrade").any(|line| line.value.as_bytes().eq_ignore_ascii_case(b"websocket"));
        is_proof && is_only && is_named
    }

    /// Returns `true` if no part of the body is missing.
    #[inline]
    pub(super) const fn is_complete(&self) -> bool {
        !matches!(self.rest, Rest::Stream { .. })
    }
}

/// Returns the response that tells the client to switch the protocol. The response contains the name of the
/// new protocol.
fn switching(head: &ResponseHead<'_>) -> Response {
    let mut response = passed_on(head);
    append_upgrade(head, &mut response);
    response
}

/// Returns the response to the client, without a body. `thruway-server` writes the headers that frame the
/// body.
#[inline]
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

#[inline]
fn passed_on(head: &ResponseHead<'_>) -> Response {
    let mut response = Response::new(head.status);
    response.mark_relayed();
    let options = ConnectionOptions::of(head.field_lines);
    response.append_kept(head.field_lines, |line| !options.include(line.name));
    response
}
