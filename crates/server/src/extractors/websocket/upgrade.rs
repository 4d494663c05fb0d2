//! The handshake of a WebSocket (RFC 6455 §4.2).

use std::borrow::Cow;
use std::fmt;
use std::future::Future;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use thruway_message::{Method, StatusCode};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::socket::WebSocket;
use crate::extractors::{Extraction, FromRequestParts};
use crate::request::{CONTENT_BYTES_MAX, Request};
use crate::response::{IntoResponse, Response, Tunnel};

/// A request for a WebSocket. [`on_upgrade`](Self::on_upgrade) accepts it. Also accepts requests over
/// HTTP/2 (RFC 8441).
///
/// Other requests get a [`WebSocketRejection`]: 426 if they do not ask for a WebSocket of version 13, 405 if
/// their method is not GET, and 400 if their key is invalid.
///
/// # Security
/// Pages of other sites can open a WebSocket too, with the cookies of the user (RFC 6455 §10.2). If cookies
/// authenticate users, compare the header `Origin` with your own origin before you accept.
#[must_use = "the connection is upgraded only if the response of `on_upgrade` is returned"]
pub struct WebSocketUpgrade {
    accept: String,
    /// The protocols that the client has offered, in its order of preference.
    offered: Vec<String>,
    selected: Option<String>,
    config: WebSocketConfig,
}

/// Reason for the rejection of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WebSocketRejection {
    /// The request does not ask for an upgrade to a WebSocket.
    NotAnUpgrade,
    /// The method is not GET.
    MethodNotGet,
    /// `Sec-WebSocket-Version` is not 13.
    VersionUnsupported,
    /// `Sec-WebSocket-Key` is not the base64 of 16 bytes.
    KeyInvalid,
}

impl WebSocketUpgrade {
    /// Accepts the request. After the response, the server calls `run` with the WebSocket. The future runs on
    /// the thread of the connection and need not be `Send`. When it ends, the server closes the connection.
    /// To close the WebSocket properly before, send [`Message::Close`](super::Message::Close).
    pub fn on_upgrade<F>(self, run: impl FnOnce(WebSocket) -> F + 'static) -> Response
    where
        F: Future<Output = ()> + 'static,
    {
        let Self { accept, selected, config, .. } = self;
        let protocol = selected.clone();
        let serve = async move |tunnel: Tunnel| run(WebSocket::new(tunnel, config, protocol).await).await;
        let response = Response::upgrade("websocket", serve).with_field("Sec-WebSocket-Accept", accept);
        match selected {
            Some(protocol) => response.with_field("Sec-WebSocket-Protocol", protocol),
            None => response,
        }
    }

    /// Selects the first of `known` that the client has offered, so list the preferred protocol first. If the
    /// client has offered none of them, the response has no `Sec-WebSocket-Protocol`, and the client may
    /// close the connection.
    pub fn protocols<I>(mut self, known: I) -> Self
    where
        I: IntoIterator<Item: Into<Cow<'static, str>>>,
    {
        let mut known = known.into_iter().map(Into::into);
        let selected = known.find(|known| self.offered.iter().any(|offered| offered == known));
        self.selected = selected.map(Cow::into_owned);
        self
    }

    /// Returns the protocols that the client has offered, in its order of preference.
    pub fn requested_protocols(&self) -> impl Iterator<Item = &str> {
        self.offered.iter().map(String::as_str)
    }

    /// Returns the protocol that [`protocols`](Self::protocols) has selected.
    pub fn selected_protocol(&self) -> Option<&str> {
        self.selected.as_deref()
    }

    /// Sets the maximum size of a received message in bytes. Default 2 MiB. After a larger message, the
    /// WebSocket closes with code 1009. Risk: each connection can use this much memory.
    pub fn max_message_size(mut self, bytes: usize) -> Self {
        self.config = self.config.max_message_size(Some(bytes));
        self
    }

    /// Sets the maximum size of a received frame, which is a part of a message, in bytes. Default 2 MiB.
    /// After a larger frame, the WebSocket closes with code 1009.
    pub fn max_frame_size(mut self, bytes: usize) -> Self {
        self.config = self.config.max_frame_size(Some(bytes));
        self
    }

    /// Sets the size of the buffer for received bytes. Default 8 KiB. Larger buffers need fewer system calls
    /// for large messages. Each connection has such a buffer.
    pub fn read_buffer_size(mut self, bytes: usize) -> Self {
        self.config = self.config.read_buffer_size(bytes);
        self
    }

    /// Checks the request (RFC 6455 §4.2.1).
    fn read(request: &Request<'_>) -> Result<Self, WebSocketRejection> {
        if !request.wants_upgrade_to("websocket") {
            return Err(WebSocketRejection::NotAnUpgrade);
        }
        if request.method() != Method::Get {
            return Err(WebSocketRejection::MethodNotGet);
        }
        if request.field(VERSION).is_none_or(|version| version != "13") {
            return Err(WebSocketRejection::VersionUnsupported);
        }
        let lines = request.field_lines();
        let mut keys = lines.all("sec-websocket-key");
        let key = keys.next().filter(|_| keys.next().is_none()).ok_or(WebSocketRejection::KeyInvalid)?;
        if STANDARD.decode(key.as_bytes()).map_or(true, |key| key.len() != KEY_BYTES) {
            return Err(WebSocketRejection::KeyInvalid);
        }
        let offered = lines.all("sec-websocket-protocol").filter_map(|value| value.as_str());
        let offered = offered.flat_map(|value| value.split(',')).map(|name| name.trim().to_owned());
        Ok(Self {
            accept: derive_accept_key(key.as_bytes()),
            offered: offered.filter(|name| !name.is_empty()).collect(),
            selected: None,
            config: WebSocketConfig::default()
                .max_message_size(Some(CONTENT_BYTES_MAX))
                .max_frame_size(Some(CONTENT_BYTES_MAX))
                .read_buffer_size(READ_BUFFER_BYTES),
        })
    }
}

impl fmt::Debug for WebSocketUpgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocketUpgrade").field("selected", &self.selected).finish_non_exhaustive()
    }
}

impl<S> FromRequestParts<S> for WebSocketUpgrade {
    type Rejection = WebSocketRejection;

    fn from_request_parts(request: &mut Request<'_>, _: &S) -> Extraction<Self, WebSocketRejection> {
        Self::read(request).into()
    }
}

impl IntoResponse for WebSocketRejection {
    fn into_response(self) -> Response {
        let response = match self {
            Self::MethodNotGet => Response::new(StatusCode::METHOD_NOT_ALLOWED).with_field("Allow", "GET"),
            Self::NotAnUpgrade => Response::upgrade_required("websocket"),
            // RFC 6455 §4.2.2 item 4 and §4.4.
            Self::VersionUnsupported => Response::upgrade_required("websocket").with_field(VERSION, "13"),
            Self::KeyInvalid => Response::new(StatusCode::BAD_REQUEST),
        };
        response.with_field("Content-Type", "text/plain; charset=utf-8").with_content(format!("{self}\n"))
    }
}

impl fmt::Display for WebSocketRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAnUpgrade => "this resource needs an upgrade to a WebSocket",
            Self::MethodNotGet => "the method of a WebSocket request must be GET",
            Self::VersionUnsupported => "`Sec-WebSocket-Version` must be 13",
            Self::KeyInvalid => "`Sec-WebSocket-Key` must be the base64 of 16 bytes",
        })
    }
}

impl std::error::Error for WebSocketRejection {}

const VERSION: &str = "Sec-WebSocket-Version";
const KEY_BYTES: usize = 16;
const READ_BUFFER_BYTES: usize = 8 << 10;
