//! HTTP/1.1 upgrades. This module computes the proof that a server has understood a WebSocket handshake
//! (RFC 6455 §4). This module also converts upgrades to extended CONNECT requests in HTTP/2 (RFC 8441).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use h2::ext::Protocol;
use http::header::{CONTENT_LENGTH, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{Method, Request, Response, StatusCode};
use sha1::{Digest, Sha1};
use thruway_message::token::is_token;
use thruway_message::{FieldLines, RequestHead, list};

/// The upgrade that a request asks for, and the data for the 101 response to an HTTP/1.1 client.
#[derive(Clone, Debug)]
pub(crate) struct Upgrade {
    /// The protocol that the client prefers.
    protocol: String,
    /// The value of `Sec-WebSocket-Accept`, which proves to a WebSocket client that the server understood the
    /// request.
    accept: Option<HeaderValue>,
}

impl Upgrade {
    /// Returns the upgrade that `head` asks for. Returns `None` if `head` names no protocol, or asks for a
    /// WebSocket without a valid key. This function reads the key because the 101 response depends on the
    /// key, and an HTTP/2 server does not receive the key.
    pub(crate) fn of(head: &RequestHead<'_>) -> Option<Self> {
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

    /// Changes `request` to an extended CONNECT request for the upgrade (RFC 8441 §4). Removes the
    /// WebSocket key, which has no meaning in HTTP/2.
    pub(crate) fn ask(self, request: &mut Request<()>) -> Self {
        *request.method_mut() = Method::CONNECT;
        request.extensions_mut().insert(Protocol::from(&*self.protocol));
        request.headers_mut().remove(SEC_WEBSOCKET_KEY);
        self
    }

    /// Converts a successful response to the extended CONNECT request into the 101 response of an
    /// HTTP/1.1 server.
    pub(crate) fn switch(&self, response: &mut Response<()>) {
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

/// The value of `Sec-WebSocket-Accept`: 20 bytes in base64.
pub type WebSocketAccept = [u8; 28];

/// Returns the value of `Sec-WebSocket-Accept` for a request with these field lines (RFC 6455 §4.2.2).
/// Returns `None` if the request does not have exactly one valid key. A valid key is 16 bytes in base64
/// (§4.2.1).
pub fn websocket_accept(field_lines: FieldLines<'_>) -> Option<WebSocketAccept> {
    let mut keys = field_lines.all("sec-websocket-key");
    let (Some(key), None) = (keys.next(), keys.next()) else { return None };
    let key = key.as_bytes();
    STANDARD.decode(key).ok().filter(|bytes| bytes.len() == KEY_BYTES)?;
    let digest = Sha1::new().chain_update(key).chain_update(GUID).finalize();
    let mut accept = [0; 28];
    STANDARD.encode_slice(digest, &mut accept).ok()?;
    Some(accept)
}

const KEY_BYTES: usize = 16;

/// RFC 6455 §1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
