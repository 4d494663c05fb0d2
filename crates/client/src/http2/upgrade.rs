//! Upgrades of HTTP/1.1, and what they are in HTTP/2: extended CONNECT (RFC 8441).

use h2::ext::Protocol;
use http::header::{CONTENT_LENGTH, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{Method, Request, Response, StatusCode};
use thruway_message::token::is_token;
use thruway_message::{RequestHead, list};

use crate::websocket::websocket_accept;

/// What a request asks for, and what a client of HTTP/1.1 is told if it gets that.
#[derive(Clone, Debug)]
pub(super) struct Upgrade {
    /// The protocol that it prefers.
    protocol: String,
    /// The proof that its request was understood, if that is for a WebSocket.
    accept: Option<HeaderValue>,
}

impl Upgrade {
    /// What `head` asks for. `None` if it names no protocol, or asks for a WebSocket without the key from which the answer to that is made:
    /// nobody else will see it.
    pub(super) fn of(head: &RequestHead<'_>) -> Option<Self> {
        let mut named = head.field_lines.all("upgrade").flat_map(|value| list::members(value.as_bytes()));
        let protocol = named.find(|protocol| is_token(protocol))?;
        let protocol = str::from_utf8(protocol).ok()?.to_owned();
        let is_websocket = protocol.eq_ignore_ascii_case("websocket");
        let accept = if is_websocket {
            Some(HeaderValue::from_bytes(&websocket_accept(head.field_lines)?).ok()?)
        } else {
            None
        };
        Some(Self { protocol, accept })
    }

    /// Has `request` ask for it (RFC 8441 §4). A key has no meaning there.
    pub(super) fn ask(self, request: &mut Request<()>) -> Self {
        *request.method_mut() = Method::CONNECT;
        request.extensions_mut().insert(Protocol::from(&*self.protocol));
        request.headers_mut().remove(SEC_WEBSOCKET_KEY);
        self
    }

    /// Makes what a server of HTTP/1.1 would have said of a success.
    pub(super) fn switch(&self, response: &mut Response<()>) {
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let fields = response.headers_mut();
        fields.remove(CONTENT_LENGTH);
        fields.remove(SEC_WEBSOCKET_ACCEPT);
        if let Ok(protocol) = HeaderValue::from_str(&self.protocol) {
            fields.insert(UPGRADE, protocol);
        }
        if let Some(accept) = &self.accept {
            fields.insert(SEC_WEBSOCKET_ACCEPT, accept.clone());
        }
    }
}
