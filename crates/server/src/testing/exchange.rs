//! A request and its response on a connection in memory.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures_core::Stream;
use thruway_http1::{
    BodyLength, ClientConnection, ClientEvent, HeadIndex, Limits, write_chunk, write_last_chunk,
};
use thruway_message::{FieldLinesBuf, OwnedResponseHead, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::TestConnection;
use super::error::TestError;

/// A request body that is sent in chunks.
pub(super) type BodyStream = Pin<Box<dyn Stream<Item = Bytes>>>;

/// Sends the rest of a request, and parses its response.
pub(super) struct Exchange {
    connection: TestConnection,
    /// Bytes to send; the first `sent` bytes are sent.
    output: Vec<u8>,
    sent: usize,
    body: Option<BodyStream>,
    http1: ClientConnection,
    index: HeadIndex,
    /// Bytes that are not parsed yet.
    input: BytesMut,
    is_tunnel: bool,
}

/// A part of a response.
pub(super) enum Event {
    Interim(OwnedResponseHead),
    Head(OwnedResponseHead, BodyLength),
    /// The head of a response that ends HTTP on the connection.
    Tunnel(OwnedResponseHead),
    Data(Bytes),
    /// The end of the body, with the trailer section.
    End(FieldLinesBuf),
}

impl Exchange {
    /// Starts to send `output` and then `body`. The caller must call `http1.expect_response` before.
    pub(super) fn new(
        connection: TestConnection,
        output: Vec<u8>,
        body: Option<BodyStream>,
        http1: ClientConnection,
    ) -> Self {
        let (index, input) = (HeadIndex::default(), BytesMut::new());
        Self { connection, output, sent: 0, body, http1, index, input, is_tunnel: false }
    }

    /// Returns the next part of the response. Sends parts of the request while the response has not arrived.
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, TestError>> {
        self.send(cx);
        loop {
            if let Some(event) = self.parse()? {
                return Poll::Ready(self.check(event));
            }
            if !ready!(self.poll_receive(cx)) {
                return Poll::Ready(match self.http1.handle_end_of_input(&self.input) {
                    Ok(true) => Ok(Event::End(FieldLinesBuf::new())),
                    _ => Err(self.connection.failure().unwrap_or(TestError::Closed)),
                });
            }
        }
    }

    /// Returns `true` after [`Event::Tunnel`].
    pub(super) const fn is_tunnel(&self) -> bool {
        self.is_tunnel
    }

    /// Returns the connection, after [`Event::Tunnel`].
    pub(super) fn into_connection(self) -> TestConnection {
        self.connection.with_early(self.input.freeze())
    }

    /// Sends as much as possible. If the server reads no more, drops the rest, because a server may respond
    /// before the end of the request.
    fn send(&mut self, cx: &mut Context<'_>) {
        while self.sent < self.output.len() || self.next_chunk(cx) {
            match Pin::new(&mut self.connection).poll_write(cx, &self.output[self.sent..]) {
                Poll::Ready(Ok(written)) if written > 0 => self.sent += written,
                Poll::Ready(_) => {
                    self.sent = self.output.len();
                    self.body = None;
                }
                Poll::Pending => return,
            }
        }
    }

    /// Replaces the sent bytes by the next chunk of the body. Returns `false` if there is none now.
    fn next_chunk(&mut self, cx: &mut Context<'_>) -> bool {
        self.output.clear();
        self.sent = 0;
        // An empty piece adds no bytes, because an empty chunk would end the body.
        while self.output.is_empty() {
            let Some(body) = &mut self.body else { return false };
            match body.as_mut().poll_next(cx) {
                Poll::Ready(Some(piece)) => write_chunk(&mut self.output, &piece),
                Poll::Ready(None) => {
                    write_last_chunk(&mut self.output, &FieldLinesBuf::new());
                    self.body = None;
                }
                Poll::Pending => return false,
            }
        }
        true
    }

    /// Receives bytes. Returns `false` if the server sends no more.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut bytes = [0; READ_BYTES];
        let mut buffer = ReadBuf::new(&mut bytes);
        let read = ready!(Pin::new(&mut self.connection).poll_read(cx, &mut buffer));
        self.input.extend_from_slice(buffer.filled());
        Poll::Ready(read.is_ok() && !buffer.filled().is_empty())
    }

    /// Parses the next part of the response. Returns `None` if the part has not arrived completely.
    fn parse(&mut self) -> Result<Option<Event>, TestError> {
        let (event, used) = self
            .http1
            .handle_input(&self.input, &mut self.index)
            .map_err(|rule| TestError::InvalidResponse(rule.to_string()))?;
        let head = || OwnedResponseHead::from(self.index.response_head(&self.input[..used]));
        let event = event.map(|event| match event {
            ClientEvent::Interim => Event::Interim(head()),
            ClientEvent::Response(length) => Event::Head(head(), length),
            ClientEvent::Tunnel => Event::Tunnel(head()),
            ClientEvent::Content(content) => Event::Data(Bytes::copy_from_slice(content)),
            ClientEvent::EndOfContent => {
                let mut trailers = FieldLinesBuf::new();
                let lines = self.index.field_lines(&self.input[..used]);
                lines.iter().for_each(|line| trailers.append_line(line));
                Event::End(trailers)
            }
        });
        self.is_tunnel = matches!(event, Some(Event::Tunnel(_)));
        self.input.advance(used);
        Ok(event)
    }

    /// Returns `event`, or the panic of the handler if `event` is the response of the server to a panic.
    fn check(&self, event: Event) -> Result<Event, TestError> {
        if let Event::Head(head, _) = &event
            && head.as_head().status == StatusCode::INTERNAL_SERVER_ERROR
            && let Some(failure @ TestError::Panicked(_)) = self.connection.failure()
        {
            return Err(failure);
        }
        Ok(event)
    }
}

/// Limits of responses. A test accepts larger responses than a client that does not know its server.
pub(super) fn limits() -> Limits {
    Limits {
        header_section_bytes: 1 << 20,
        field_lines: 10_000,
        content_bytes: u64::MAX,
        trailer_section_bytes: 1 << 20,
        interim_responses: 1000,
        ..Limits::default()
    }
}

const READ_BYTES: usize = 16 << 10;
