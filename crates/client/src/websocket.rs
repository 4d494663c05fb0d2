//! The proof that a server has read the handshake of a WebSocket (RFC 6455 §4).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use thruway_message::FieldLines;

/// The value of `Sec-WebSocket-Accept`: 20 bytes in base64.
pub type WebSocketAccept = [u8; 28];

/// Returns the `Sec-WebSocket-Accept` for the request with these field lines (RFC 6455 §4.2.2). `None`
/// without exactly one valid key, which is 16 bytes in base64 (§4.2.1).
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
