//! The HTTP/1.1 connection of a virtual user, with at most one request in progress.

use std::io;
use std::task::{Context, Poll, ready};

use thruway_http1::{self as http1, BodyLength, ClientConnection, ClientEvent, ResponseTo};
use thruway_net::Transport;

use super::connection::poll_flush;
use super::dispatch::{SharedBuffers, Worker};
use super::wire::LIMITS;
use crate::failure::{Detail, Failure, FailureKind};
use crate::requests::Received;

/// The connection of a virtual user.
pub(super) struct UserConnection<T> {
    transport: T,
    http1: ClientConnection,
    /// The encoded request. The bytes before the offset `written` have been sent.
    output: Vec<u8>,
    written: usize,
    /// Received bytes that the parser has not consumed yet.
    kept: Vec<u8>,
    /// Number of received bytes of the current response.
    received_bytes: u64,
    /// `true` if the response ended with the connection.
    is_at_end: bool,
}

impl<T: Transport> UserConnection<T> {
    pub(super) fn new(transport: T) -> Self {
        Self {
            transport,
            http1: ClientConnection::new(LIMITS),
            output: Vec::new(),
            written: 0,
            kept: Vec::new(),
            received_bytes: 0,
            is_at_end: false,
        }
    }

    /// Returns `true` if the connection can send another request after a complete response.
    pub(super) fn is_reusable(&self) -> bool {
        self.http1.is_persistent() && self.kept.is_empty() && self.output.is_empty() && !self.is_at_end
    }

    /// Returns `false` if the server has closed the connection, or has sent bytes without a request.
    pub(super) fn is_usable(&mut self) -> bool {
        self.transport.has_no_input()
    }

    /// Returns the number of received bytes of the last response.
    pub(super) const fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Accepts a request. The next call of [`poll`](Self::poll) sends it.
    pub(super) fn send(&mut self, request: &[u8], to: ResponseTo) {
        self.output.extend_from_slice(request);
        self.http1.expect_response(to, false);
        self.received_bytes = 0;
    }

    /// Sends the request and reads its response into `received`. Returns `Ready` if the response is complete.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Worker,
        received: &mut Received<'_>,
    ) -> Poll<Result<(), Failure>> {
        if let Err(error) = poll_flush(&mut self.transport, &mut self.output, &mut self.written, cx) {
            return Poll::Ready(Err(self.broken(&error)));
        }
        let shared_buffers = &mut *worker.shared_buffers.borrow_mut();
        loop {
            let kept = self.kept.len();
            shared_buffers.input[..kept].copy_from_slice(&self.kept);
            let read = match ready!(self.transport.poll_read(cx, &mut shared_buffers.input[kept..])) {
                Ok(0) => return Poll::Ready(self.end_of_input()),
                Ok(read) => read,
                Err(error) => return Poll::Ready(Err(self.broken(&error))),
            };
            self.kept.clear();
            self.received_bytes += read as u64;
            match self.parse(shared_buffers, kept + read, received) {
                Ok(true) => return Poll::Ready(Ok(())),
                Ok(false) => {}
                Err(rule) => {
                    let failure = Failure { kind: FailureKind::Malformed, detail: Detail::Rule(rule) };
                    return Poll::Ready(Err(failure));
                }
            }
        }
    }

    /// Parses the input before the offset `filled`, and keeps the unparsed bytes. Returns `true` if the response is
    /// complete.
    fn parse(
        &mut self,
        shared_buffers: &mut SharedBuffers,
        filled: usize,
        received: &mut Received<'_>,
    ) -> Result<bool, http1::Error> {
        let mut parsed = 0;
        let is_complete = loop {
            let input = &shared_buffers.input[parsed..filled];
            let (event, used) = self.http1.handle_input(input, &mut shared_buffers.index)?;
            let head = &input[..used];
            parsed += used;
            match event {
                None => break false,
                Some(ClientEvent::Interim) => {}
                Some(ClientEvent::Tunnel) => return Err(http1::Error::UnexpectedMessage),
                Some(ClientEvent::Response(length)) => {
                    let head = shared_buffers.index.response_head(head);
                    received.begin(head.status.as_u16(), head.field_lines);
                    if length == BodyLength::NONE {
                        break true;
                    }
                }
                Some(ClientEvent::Content(content)) => received.take_content(content),
                Some(ClientEvent::EndOfContent) => break true,
            }
        };
        self.kept.extend_from_slice(&shared_buffers.input[parsed..filled]);
        Ok(is_complete)
    }

    /// Handles the end of the input: the server has closed its side of the connection.
    fn end_of_input(&mut self) -> Result<(), Failure> {
        self.is_at_end = true;
        if self.http1.handle_end_of_input(&self.kept) == Ok(true) {
            // A body without a length ends with the connection (RFC 9112 §6.3 rule 8).
            return Ok(());
        }
        let kind = if self.received_bytes > 0 { FailureKind::Incomplete } else { FailureKind::Closed };
        Err(Failure::of(kind))
    }

    fn broken(&self, error: &io::Error) -> Failure {
        Failure::of(match error.kind() {
            // A write failed because the server had already closed the connection.
            io::ErrorKind::BrokenPipe if self.received_bytes == 0 => FailureKind::Closed,
            _ => FailureKind::Reset,
        })
    }
}
