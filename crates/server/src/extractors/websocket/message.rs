//! Messages of a WebSocket.

use std::fmt;
use std::ops::Deref;

use bytes::Bytes;
use tokio_tungstenite::tungstenite;

/// A message of a WebSocket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Text.
    Text(Utf8Bytes),
    /// Bytes.
    Binary(Bytes),
    /// A ping, with at most 125 bytes. The server has already answered a received ping.
    Ping(Bytes),
    /// The answer to a ping, with at most 125 bytes.
    Pong(Bytes),
    /// The start of the close handshake, or the answer to it. The server has already answered a received
    /// message.
    Close(Option<CloseFrame>),
}

/// Reason for the end of a WebSocket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CloseFrame {
    /// Number of the reason: see [`close_code`].
    pub code: u16,
    /// Text for logs, with at most 123 bytes.
    pub reason: Utf8Bytes,
}

/// Text in shared memory. Clones are cheap.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Utf8Bytes(tungstenite::Utf8Bytes);

/// The numbers of close frames (RFC 6455 §7.4.1).
pub mod close_code {
    /// The purpose of the connection is fulfilled.
    pub const NORMAL: u16 = 1000;
    /// The server shuts down, or the user leaves the page.
    pub const AWAY: u16 = 1001;
    /// The peer broke a rule of the protocol.
    pub const PROTOCOL: u16 = 1002;
    /// The endpoint does not support this type of message, such as binary messages.
    pub const UNSUPPORTED: u16 = 1003;
    /// The message does not match its type, such as text that is not UTF-8.
    pub const INVALID: u16 = 1007;
    /// The message breaks a rule of the application.
    pub const POLICY: u16 = 1008;
    /// The message is too large.
    pub const SIZE: u16 = 1009;
    /// The server failed.
    pub const ERROR: u16 = 1011;
    /// The server restarts.
    pub const RESTART: u16 = 1012;
    /// The server is overloaded.
    pub const AGAIN: u16 = 1013;
}

impl Message {
    /// Creates a text message.
    pub fn text(text: impl Into<Utf8Bytes>) -> Self {
        Self::Text(text.into())
    }

    /// Creates a binary message.
    pub fn binary(bytes: impl Into<Bytes>) -> Self {
        Self::Binary(bytes.into())
    }

    /// Returns the text of a text message.
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn into_tungstenite(self) -> tungstenite::Message {
        match self {
            Self::Text(text) => tungstenite::Message::Text(text.0),
            Self::Binary(bytes) => tungstenite::Message::Binary(bytes),
            Self::Ping(bytes) => tungstenite::Message::Ping(bytes),
            Self::Pong(bytes) => tungstenite::Message::Pong(bytes),
            Self::Close(frame) => tungstenite::Message::Close(frame.map(CloseFrame::into_tungstenite)),
        }
    }

    /// Converts a message. Returns `None` for a raw frame, which a socket never receives.
    pub(super) fn from_tungstenite(message: tungstenite::Message) -> Option<Self> {
        Some(match message {
            tungstenite::Message::Text(text) => Self::Text(Utf8Bytes(text)),
            tungstenite::Message::Binary(bytes) => Self::Binary(bytes),
            tungstenite::Message::Ping(bytes) => Self::Ping(bytes),
            tungstenite::Message::Pong(bytes) => Self::Pong(bytes),
            tungstenite::Message::Close(frame) => Self::Close(
                frame.map(|frame| CloseFrame { code: frame.code.into(), reason: Utf8Bytes(frame.reason) }),
            ),
            tungstenite::Message::Frame(_) => return None,
        })
    }
}

impl CloseFrame {
    /// Creates a frame.
    pub fn new(code: u16, reason: impl Into<Utf8Bytes>) -> Self {
        Self { code, reason: reason.into() }
    }

    fn into_tungstenite(self) -> tungstenite::protocol::CloseFrame {
        tungstenite::protocol::CloseFrame { code: self.code.into(), reason: self.reason.0 }
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<Bytes> for Message {
    fn from(bytes: Bytes) -> Self {
        Self::Binary(bytes)
    }
}

impl From<Vec<u8>> for Message {
    fn from(bytes: Vec<u8>) -> Self {
        Self::binary(bytes)
    }
}

impl Utf8Bytes {
    /// Creates a value without a copy of `text`.
    pub const fn from_static(text: &'static str) -> Self {
        Self(tungstenite::Utf8Bytes::from_static(text))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl Deref for Utf8Bytes {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Utf8Bytes {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Utf8Bytes {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<Utf8Bytes> for Bytes {
    fn from(text: Utf8Bytes) -> Self {
        text.0.into()
    }
}

impl PartialEq<str> for Utf8Bytes {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Utf8Bytes {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Display for Utf8Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Utf8Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
