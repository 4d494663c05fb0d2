//! An open WebSocket.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_util::{Sink, SinkExt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Error as LibraryError;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::message::{CloseFrame, Message, Utf8Bytes, close_code};
use crate::response::Tunnel;

/// A WebSocket, as a stream and a sink of messages. To send and receive at the same time, use
/// [`split`](futures_util::StreamExt::split).
///
/// While the handler receives, the server answers pings and close messages. It sends no pings.
pub struct WebSocket {
    stream: WebSocketStream<Tunnel>,
    protocol: Option<String>,
    state: State,
    /// The error that the handler gets in the state `Ended`, if any.
    error: Option<WebSocketError>,
}

/// ```text
/// Open ──close message──▶ Answers ──answer sent──▶ Open, and later Ended
///  └──────invalid input──▶ Fails ──connection closed, or timeout──▶ Ended
/// ```
enum State {
    Open,
    /// The client has closed the WebSocket. The answer must be sent before the handler gets the message,
    /// because handlers end after this message.
    Answers(Option<CloseFrame>),
    Fails(Failing),
    Ended,
}

/// The end of a WebSocket after an error of the client (RFC 6455 §7.1.7).
struct Failing {
    /// `true` if the close message and the end of the stream are sent.
    is_sent: bool,
    timer: Pin<Box<Sleep>>,
}

/// Reason for the end of a WebSocket.
#[derive(Debug)]
#[non_exhaustive]
pub enum WebSocketError {
    /// The connection failed.
    Io(io::Error),
    /// The client closed the connection without a close message.
    Disconnected,
    /// A received message or frame was too large. The client got the close code 1009.
    TooLarge,
    /// A received text was not UTF-8. The client got the close code 1007.
    NotUtf8,
    /// The client broke a rule of the protocol. Contains the rule. The client got the close code 1002.
    Protocol(String),
    /// The WebSocket is closed, so the message was not sent.
    Closed,
}

impl WebSocket {
    pub(super) async fn new(tunnel: Tunnel, config: WebSocketConfig, protocol: Option<String>) -> Self {
        let stream = WebSocketStream::from_raw_socket(tunnel, Role::Server, Some(config)).await;
        Self { stream, protocol, state: State::Open, error: None }
    }

    /// Returns the selected subprotocol.
    pub fn protocol(&self) -> Option<&str> {
        self.protocol.as_deref()
    }

    /// Receives the next message. Returns `None` after the WebSocket has closed.
    ///
    /// An error ends the WebSocket. If the client has caused it, the client gets the close code first. That
    /// takes at most two seconds.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub async fn recv(&mut self) -> Option<Result<Message, WebSocketError>> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Sends `message`, and waits until it is passed to the connection. After [`Message::Close`], continue to
    /// receive until `None`, so that the client can answer.
    ///
    /// # Errors
    /// The connection failed, or the WebSocket is closed.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the message may still be sent with the next message.
    pub async fn send(&mut self, message: Message) -> Result<(), WebSocketError> {
        SinkExt::send(self, message).await
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Message, WebSocketError>>> {
        loop {
            match &mut self.state {
                State::Open => match ready!(Pin::new(&mut self.stream).poll_next(cx)) {
                    None => self.state = State::Ended,
                    Some(Err(error)) => self.fail(error.into()),
                    Some(Ok(message)) => match Message::from_tungstenite(message) {
                        Some(Message::Close(frame)) => self.state = State::Answers(frame),
                        Some(message) => return Poll::Ready(Some(Ok(message))),
                        None => {}
                    },
                },
                State::Answers(frame) => {
                    // An error means that the client has left, after its close message.
                    let _ = ready!(Pin::new(&mut self.stream).poll_flush(cx));
                    let frame = frame.take();
                    self.state = State::Open;
                    return Poll::Ready(Some(Ok(Message::Close(frame))));
                }
                State::Fails(failing) => {
                    ready!(failing.poll(&mut self.stream, cx));
                    self.state = State::Ended;
                }
                State::Ended => return Poll::Ready(self.error.take().map(Err)),
            }
        }
    }

    /// Begins the end after `error`. Sends the client the reason, if the connection still works.
    fn fail(&mut self, error: WebSocketError) {
        let close = error.close_code().map(|code| CloseFrame::new(code, Utf8Bytes::default()));
        if let Some(close) = close {
            // An error means that the WebSocket is already closing, or that the connection has failed.
            let close = Message::Close(Some(close)).into_tungstenite();
            let _ = Pin::new(&mut self.stream).start_send(close);
            let timer = Box::pin(sleep(LINGER));
            self.state = State::Fails(Failing { is_sent: false, timer });
        } else {
            self.state = State::Ended;
        }
        self.error = Some(error).filter(|error| !matches!(error, WebSocketError::Closed));
    }
}

impl Failing {
    /// Sends the close message. Then discards the input until the client closes the connection, because the
    /// kernel would reset a connection with unread input, and the client could lose the close message.
    fn poll(&mut self, stream: &mut WebSocketStream<Tunnel>, cx: &mut Context<'_>) -> Poll<()> {
        if self.timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if !self.is_sent {
            let flushed = ready!(Pin::new(&mut *stream).poll_flush(cx));
            if flushed.is_err() || ready!(Pin::new(stream.get_mut()).poll_shutdown(cx)).is_err() {
                return Poll::Ready(());
            }
            self.is_sent = true;
        }
        let mut bytes = [0; 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(stream.get_mut()).poll_read(cx, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(());
            }
        }
    }
}

impl Stream for WebSocket {
    type Item = Result<Message, WebSocketError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_recv(cx)
    }
}

impl Sink<Message> for WebSocket {
    type Error = WebSocketError;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), WebSocketError>> {
        Pin::new(&mut self.stream).poll_ready(cx).map_err(Into::into)
    }

    fn start_send(mut self: Pin<&mut Self>, message: Message) -> Result<(), WebSocketError> {
        Pin::new(&mut self.stream).start_send(message.into_tungstenite()).map_err(Into::into)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), WebSocketError>> {
        Pin::new(&mut self.stream).poll_flush(cx).map_err(Into::into)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), WebSocketError>> {
        Pin::new(&mut self.stream).poll_close(cx).map_err(Into::into)
    }
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket").field("protocol", &self.protocol).finish_non_exhaustive()
    }
}

impl WebSocketError {
    /// Returns the close code for the client, or `None` if the client cannot receive it.
    const fn close_code(&self) -> Option<u16> {
        match self {
            Self::TooLarge => Some(close_code::SIZE),
            Self::NotUtf8 => Some(close_code::INVALID),
            Self::Protocol(_) => Some(close_code::PROTOCOL),
            Self::Io(_) | Self::Disconnected | Self::Closed => None,
        }
    }
}

impl From<LibraryError> for WebSocketError {
    fn from(error: LibraryError) -> Self {
        match error {
            LibraryError::ConnectionClosed
            | LibraryError::AlreadyClosed
            | LibraryError::Protocol(ProtocolError::SendAfterClosing) => Self::Closed,
            LibraryError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Self::Disconnected,
            LibraryError::Io(error) => Self::Io(error),
            LibraryError::Capacity(_) => Self::TooLarge,
            LibraryError::Utf8(_) => Self::NotUtf8,
            LibraryError::Protocol(rule) => Self::Protocol(rule.to_string()),
            other => Self::Protocol(other.to_string()),
        }
    }
}

impl fmt::Display for WebSocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the connection of the WebSocket failed: {error}"),
            Self::Disconnected => f.write_str("the client closed the connection without a close message"),
            Self::TooLarge => f.write_str("a message or frame from the client is too large"),
            Self::NotUtf8 => f.write_str("a text message from the client is not UTF-8"),
            Self::Protocol(rule) => write!(f, "the client broke a rule of RFC 6455: {rule}"),
            Self::Closed => f.write_str("the WebSocket is closed"),
        }
    }
}

impl std::error::Error for WebSocketError {}

/// Maximum time to wait for a client to read a close message after an error.
const LINGER: Duration = Duration::from_secs(2);
