//! One exchange with an upstream: sends the body of the client while the response arrives.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use thruway_client::{Error, ResponseEvent, Timeouts};
use thruway_message::FieldLinesBuf;
use thruway_net::{Deadline, LargeBuffer, Pipe, PooledBuffer, Transport};
use thruway_server::{BoxError, InterimSender, Piece, RequestPiece, StatusCode};

use super::fields;
use super::request_body::RequestBody;
use super::response::{Begun, Body, response_of, switching};
use crate::Failure;
use crate::upstream::{Exchange, ResponsePoll, ServerSlot};

/// The two sides of an exchange.
pub(super) struct Relay {
    /// The exchange. `None` when it is over.
    exchange: Option<Exchange>,
    pub(super) slot: Box<ServerSlot>,
    /// Wakes the task when a timeout of the upstream is over. Set after the first wait.
    deadline: Option<Deadline>,
    /// Bytes of the request body that are taken from the client and not sent yet.
    unsent: Bytes,
    /// Unsent bytes of the request body in a pipe. `unsent` is empty then.
    unsent_pipe: Option<Pipe>,
    /// Trailers to forward after the body.
    trailers: Option<FieldLinesBuf>,
    /// Time when the last piece of the response body was forwarded.
    last_piece: Duration,
    /// Time at which the request times out.
    pub(super) until: Option<Duration>,
    /// `true` if the server may be silent for long, as in an event stream.
    may_be_silent: bool,
}

impl Relay {
    pub(super) const fn new(exchange: Exchange, slot: Box<ServerSlot>, until: Option<Duration>) -> Self {
        Self {
            exchange: Some(exchange),
            slot,
            deadline: None,
            unsent: Bytes::new(),
            unsent_pipe: None,
            trailers: None,
            last_piece: Duration::ZERO,
            until,
            may_be_silent: false,
        }
    }

    /// Returns the connection to the upstream if the response has made it a tunnel, and the slot that counts
    /// it.
    pub(super) fn into_exchange(self) -> (Option<Exchange>, Box<ServerSlot>) {
        (self.exchange, self.slot)
    }

    /// Sets the maximum pause of an event stream.
    pub(super) fn expect_events(&mut self, idle: Duration) {
        let Some(exchange) = &mut self.exchange else { return };
        let timeouts = Timeouts { content_idle: idle, ..exchange.timeouts() };
        exchange.set_timeouts(timeouts);
        self.may_be_silent = true;
    }

    /// Returns `failure`. For a timeout while the server was still receiving the request, returns another
    /// failure, because the server was not slow.
    pub(super) fn blamed(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Exchange(Error::TimedOut) if self.wants_content() => Failure::TimedOut,
            failure => failure,
        }
    }

    /// Returns `true` if the upstream still accepts content of the request.
    pub(super) fn wants_content(&self) -> bool {
        self.exchange.as_ref().is_some_and(Exchange::wants_content)
    }

    /// Ready when the head of the response has arrived. A small body that arrives with the head is included.
    pub(super) fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut Option<Box<RequestBody>>,
    ) -> Poll<Result<Begun, Failure>> {
        let now = self.slot.clock().now();
        if let Some(body) = body
            && self.poll_send(cx, now, body)?
        {
            self.slot.content_sent();
        }
        let Some(exchange) = &mut self.exchange else { return Poll::Pending };
        let mut poll = exchange.begin_poll(self.slot.read_buffers());
        poll.read_at_most(WHOLE_BYTES_MAX);
        let begun = loop {
            match poll.poll_event(cx, now)? {
                Poll::Pending => {
                    drop(poll);
                    self.wait(cx);
                    return Poll::Pending;
                }
                // The server of the client sends 100 when the handler reads, so 100 from the upstream is
                // dropped.
                Poll::Ready(ResponseEvent::Interim(head)) if head.status == StatusCode::CONTINUE => {}
                Poll::Ready(ResponseEvent::Interim(head)) => {
                    InterimSender::of(&self.slot.worker).send(&response_of(&head));
                }
                Poll::Ready(ResponseEvent::Final(head, body_length)) => {
                    break Begun { response: response_of(&head), body: Body::of(&head, body_length) };
                }
                Poll::Ready(ResponseEvent::Tunnel(head)) => {
                    break Begun { response: switching(&head), body: Body::Tunnel };
                }
                Poll::Ready(ResponseEvent::Content(_) | ResponseEvent::End(_)) => {
                    unreachable!("a head comes first, and an exchange that is complete was taken out")
                }
            }
        };
        let Begun { response, body: Body::Stream { length, .. } } = begun else {
            drop(poll);
            self.finish(now);
            return Poll::Ready(Ok(begun));
        };
        let mut first = PooledBuffer::take();
        let is_complete = match poll.take_content() {
            Some(whole) => {
                first.extend_from_slice(whole);
                true
            }
            None => take_first(&mut poll, cx, now, &mut first, length, &mut self.trailers)?,
        };
        drop(poll);
        self.last_piece = now;
        if is_complete {
            self.finish(now);
            return Poll::Ready(Ok(Begun { response, body: Body::Whole(first) }));
        }
        Poll::Ready(Ok(Begun { response, body: Body::Stream { first, length } }))
    }

    /// Sends the available part of the request body, as far as the upstream accepts it. Returns `true` if
    /// anything was sent.
    pub(super) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
        body: &mut RequestBody,
    ) -> Result<bool, Failure> {
        let Some(exchange) = &mut self.exchange else { return Ok(false) };
        let mut has_sent = false;
        while exchange.wants_content() {
            if let Some(pipe) = self.unsent_pipe.as_mut().filter(|pipe| !pipe.is_empty()) {
                if exchange.poll_send_pipe(cx, now, pipe)?.is_pending() {
                    break;
                }
                has_sent = true;
                continue;
            }
            // The empty pipe returns to the pool before another one is taken.
            self.unsent_pipe = None;
            if self.unsent.is_empty() {
                if exchange.poll_write_capacity(cx, now)?.is_pending() {
                    break;
                }
                match body.poll_next_piece(cx, exchange.takes_pipes()) {
                    Poll::Pending => break,
                    Poll::Ready(Some(piece)) => match piece? {
                        RequestPiece::Data(bytes) => self.unsent = bytes,
                        RequestPiece::Piped(pipe) => {
                            self.unsent_pipe = Some(pipe);
                            continue;
                        }
                    },
                    Poll::Ready(None) => {
                        exchange.finish_content(body.trailers())?;
                        has_sent = true;
                        break;
                    }
                }
            }
            if exchange.poll_send(cx, now, &mut self.unsent)?.is_pending() {
                break;
            }
            has_sent = true;
        }
        if !exchange.wants_content() {
            self.unsent_pipe = None;
        }
        // Sends the bytes that were collected for one write.
        let _ = exchange.poll_flush(cx, now)?;
        Ok(has_sent)
    }

    /// Reads content from the socket into a large buffer, if content comes next, a buffer is available, and
    /// the client is fast enough.
    fn poll_large_piece(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
    ) -> Option<Poll<Result<Piece, Error>>> {
        let exchange =
            self.exchange.as_mut().filter(|exchange| exchange.movable_content() >= LARGE_CONTENT_BYTES)?;
        if now.saturating_sub(self.last_piece) > FAST_CLIENT {
            return None;
        }
        let mut buffer = LargeBuffer::take()?;
        let moved = exchange.poll_move_content(cx, now, |transport, bytes, cx| {
            let room = buffer.room();
            let length = usize::try_from(bytes).map_or(room.len(), |bytes| bytes.min(room.len()));
            transport.poll_read(cx, &mut room[..length]).map_ok(|read| read as u64)
        });
        Some(moved.map_ok(|moved| {
            buffer.truncate(usize::try_from(moved).unwrap_or(usize::MAX));
            Piece::Data(Bytes::from_owner(buffer))
        }))
    }

    /// Reads a part of the body into a pipe, under the same conditions as `poll_large_piece`.
    pub(super) fn poll_pipe(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
    ) -> Option<Poll<Result<Pipe, Error>>> {
        let exchange =
            self.exchange.as_mut().filter(|exchange| exchange.movable_content() >= LARGE_CONTENT_BYTES)?;
        if now.saturating_sub(self.last_piece) > FAST_CLIENT {
            return None;
        }
        if !exchange.is_plain() {
            return None;
        }
        let mut pipe = Pipe::take()?;
        let moved = exchange.poll_move_content(cx, now, |stream, bytes, cx| {
            let length = usize::try_from(bytes).unwrap_or(usize::MAX);
            let Some(stream) = stream.plain() else { return Poll::Ready(Ok(0)) };
            stream.poll_fill(cx, &mut pipe, length).map_ok(|moved| moved as u64)
        });
        match moved {
            Poll::Pending => self.wait(cx),
            Poll::Ready(_) => self.last_piece = now,
        }
        Some(moved.map_ok(|_| pipe))
    }

    /// Returns the next piece of the response body.
    pub(super) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
    ) -> Poll<Result<Option<Piece>, Error>> {
        if let Some(trailers) = self.trailers.take() {
            self.finish(now);
            return Poll::Ready(Ok(Some(Piece::Trailers(trailers))));
        }
        if let Some(large) = self.poll_large_piece(cx, now) {
            let piece = match large {
                Poll::Pending => {
                    self.wait(cx);
                    return Poll::Pending;
                }
                Poll::Ready(piece) => piece?,
            };
            self.last_piece = now;
            return Poll::Ready(Ok(Some(piece)));
        }
        let Some(exchange) = &mut self.exchange else { return Poll::Ready(Ok(None)) };
        let mut poll = exchange.begin_poll(self.slot.read_buffers());
        poll.read_at_most(PIECE_BYTES_MAX);
        let piece = match poll.poll_event(cx, now)? {
            Poll::Pending => {
                drop(poll);
                self.wait(cx);
                return Poll::Pending;
            }
            Poll::Ready(ResponseEvent::Content(bytes)) => {
                let piece = PooledBuffer::copy_of(bytes);
                self.last_piece = now;
                return Poll::Ready(Ok(Some(Piece::Data(Bytes::from_owner(piece)))));
            }
            Poll::Ready(ResponseEvent::End(trailers)) if trailers.is_empty() => None,
            Poll::Ready(ResponseEvent::End(trailers)) => {
                Some(Piece::Trailers(fields::trailers(trailers.iter())))
            }
            Poll::Ready(_) => None,
        };
        drop(poll);
        self.finish(now);
        Poll::Ready(Ok(piece))
    }

    /// Ends a complete exchange, so that the connection can be reused.
    fn finish(&mut self, now: Duration) {
        self.deadline = None;
        if !self.exchange.as_ref().is_some_and(Exchange::is_complete) {
            return;
        }
        self.slot.completed();
        match self.exchange.take().and_then(Exchange::finish) {
            Some(connection) => self.slot.put_idle(connection, now),
            None => self.slot.upstream.notify_free_connection(&self.slot.worker),
        }
    }

    /// Returns the error for a body that breaks off. The status was already sent.
    #[cold]
    pub(super) fn failed(&self, failure: Failure) -> BoxError {
        self.slot.server.statistics().count_failure(failure);
        let is_fault = match failure {
            Failure::Exchange(Error::ContentTimedOut) => !self.may_be_silent,
            // The client may be the slow side.
            Failure::Exchange(Error::TimedOut) => false,
            _ => true,
        };
        if is_fault {
            self.slot.broke_off(failure);
        }
        failure.into()
    }

    /// Wakes the task when a timeout of the upstream expires.
    fn wait(&mut self, cx: &Context<'_>) {
        let Some(exchange) = &self.exchange else { return };
        if self.deadline.is_none() {
            self.deadline = Some(self.slot.worker.deadlines().register());
        }
        if let Some(deadline) = &self.deadline {
            deadline.set(exchange.deadline());
            deadline.set_waker(cx.waker());
        }
    }
}

/// Reads the available part of a small body into `first`, and the trailers behind it. `length` is the length
/// of the body, if known. Returns `true` if the body is complete.
fn take_first(
    poll: &mut ResponsePoll<'_>,
    cx: &mut Context<'_>,
    now: Duration,
    first: &mut PooledBuffer,
    length: Option<u64>,
    kept: &mut Option<FieldLinesBuf>,
) -> Result<bool, Error> {
    loop {
        match poll.poll_event(cx, now)? {
            Poll::Ready(ResponseEvent::Content(bytes)) => first.extend_from_slice(bytes),
            Poll::Ready(ResponseEvent::End(trailers)) if trailers.is_empty() => return Ok(true),
            Poll::Ready(ResponseEvent::End(trailers)) => {
                *kept = Some(fields::trailers(trailers.iter()));
                return Ok(false);
            }
            Poll::Ready(_) | Poll::Pending => return Ok(false),
        }
        // A large body is read separately, because here it would be copied.
        let left = length.map_or(0, |length| length.saturating_sub(first.len() as u64));
        if first.len() >= WHOLE_BYTES_MAX || left >= LARGE_CONTENT_BYTES {
            return Ok(false);
        }
    }
}

/// Maximum size of a body that is sent together with its head. Larger bodies are streamed.
const WHOLE_BYTES_MAX: usize = 64 << 10;

/// If the client reads a piece within this time, the next piece uses a large buffer. A slower client would
/// occupy the buffer.
const FAST_CLIENT: Duration = Duration::from_millis(50);

/// Minimum number of remaining bytes for a large buffer.
const LARGE_CONTENT_BYTES: u64 = 64 << 10;

/// Number of bytes of streamed content in one read, the size of reusable buffers.
const PIECE_BYTES_MAX: usize = 64 << 10;
