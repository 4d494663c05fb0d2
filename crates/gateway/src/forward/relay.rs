//! One exchange with an upstream server: sends the client's request body while the response arrives.

use std::mem;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use thruway_client::{Error, ResponseEvent, Timeouts};
use thruway_message::FieldLinesBuf;
use thruway_net::{Deadline, LargeBuffer, Pipe, PooledBuffer, Transport};
use thruway_server::{BoxError, InterimSender, Piece, RequestPiece, StatusCode};

use super::fields;
use super::low_water::LowWater;
use super::request::OutgoingRequest;
use super::request_body::RequestBody;
use super::response::{Begun, Rest, response_of};
use crate::Failure;
use crate::upstream::{Exchange, ResponsePoll, ServerSlot};

/// An exchange with an upstream server, and the request body bytes that are not sent yet.
pub(super) struct Relay {
    /// The exchange. `None` after the exchange has ended.
    exchange: Option<Exchange>,
    pub(super) slot: ServerSlot,
    /// `true` if the exchange started without the request head, so that the first poll sends the head.
    is_head_unsent: bool,
    /// The timer that wakes the task when a timeout of the exchange expires. `None` until the task waits
    /// for the first time.
    deadline: Option<Deadline>,
    /// Bytes of the request body that were read from the client but are not sent yet.
    unsent: Bytes,
    /// A pipe with request body bytes that are not sent yet. While the pipe contains bytes, `unsent` is
    /// empty.
    unsent_pipe: Option<Pipe>,
    /// Response trailers to forward after the response body.
    trailers: Option<FieldLinesBuf>,
    /// Time when the last piece of the response body was forwarded.
    last_piece: Duration,
    /// Time at which the request times out.
    pub(super) until: Option<Duration>,
    /// `true` if the server may pause for a long time, as in an event stream.
    may_be_silent: bool,
    low_water: LowWater,
}

impl Relay {
    /// Returns the relay of `exchange`. `is_head_unsent` is `true` if the exchange started without the request
    /// head. `until` is the time at which the request times out.
    pub(super) fn new(
        exchange: Exchange,
        is_head_unsent: bool,
        slot: ServerSlot,
        until: Option<Duration>,
    ) -> Self {
        Self {
            exchange: Some(exchange),
            slot,
            is_head_unsent,
            deadline: None,
            unsent: Bytes::new(),
            unsent_pipe: None,
            trailers: None,
            last_piece: Duration::ZERO,
            until,
            may_be_silent: false,
            low_water: LowWater::default(),
        }
    }

    /// Returns the exchange, and the slot that counts the request. Call this method if the response has
    /// turned the connection into a tunnel.
    pub(super) fn into_exchange(self) -> (Option<Exchange>, ServerSlot) {
        (self.exchange, self.slot)
    }

    /// Sets `idle` as the maximum time without a byte, because the response is an event stream.
    pub(super) fn expect_events(&mut self, idle: Duration) {
        let Some(exchange) = &mut self.exchange else { return };
        let timeouts = Timeouts { content_idle: idle, ..exchange.timeouts() };
        exchange.set_timeouts(timeouts);
        self.may_be_silent = true;
        self.low_water.disable();
    }

    /// Returns the failure to report for `failure`. If a timeout expired before the whole request body was
    /// sent, returns [`Failure::TimedOut`], because the server was not slow.
    pub(super) fn blamed(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Exchange(Error::TimedOut) if self.wants_content() => Failure::TimedOut,
            failure => failure,
        }
    }

    /// Returns `true` if a part of the request body must still be sent.
    pub(super) fn wants_content(&self) -> bool {
        self.exchange.as_ref().is_some_and(Exchange::wants_content)
    }

    /// Sends `request` with its body, and reads the response. Ready when the head of the response has arrived.
    /// If a small body arrives with the head, the result contains this body.
    pub(super) fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        request: &OutgoingRequest,
        body: &mut Option<Box<RequestBody>>,
    ) -> Poll<Result<Begun, Failure>> {
        let now = self.slot.clock().now();
        if mem::take(&mut self.is_head_unsent)
            && let Some(exchange) = &mut self.exchange
        {
            exchange.send_head(cx, now, request.bytes())?;
        }
        if let Some(body) = body
            && self.poll_send(cx, now, body)?
        {
            self.slot.content_sent();
        }
        let Some(exchange) = &mut self.exchange else { return Poll::Pending };
        let mut poll = exchange.begin_poll(self.slot.read_buffers(), WHOLE_BYTES_MAX);
        let mut begun = loop {
            match poll.poll_event(cx, now)? {
                Poll::Pending => {
                    drop(poll);
                    self.wait(cx);
                    return Poll::Pending;
                }
                // `thruway-server` sends 100 (Continue) to the client when the gateway reads the request
                // body. Therefore, the gateway does not forward the 100 response of the upstream server.
                Poll::Ready(ResponseEvent::Interim(head)) if head.status == StatusCode::CONTINUE => {}
                Poll::Ready(ResponseEvent::Interim(head)) => {
                    InterimSender::of(&self.slot.worker).send(&response_of(&head));
                }
                Poll::Ready(ResponseEvent::Final(head, body_length)) => {
                    break Begun::of(&head, body_length);
                }
                Poll::Ready(ResponseEvent::Tunnel(head)) => {
                    break Begun::of_tunnel(&head);
                }
                Poll::Ready(ResponseEvent::Content(_) | ResponseEvent::End(_)) => {
                    unreachable!("the head comes first, and a complete exchange is not polled")
                }
            }
        };
        self.last_piece = now;
        if let Some(whole) = poll.take_content() {
            begun.response.set_content(PooledBuffer::copy_of(whole));
            begun.rest = Rest::Complete;
        } else if let Rest::Stream { first, length } = &mut begun.rest {
            *first = PooledBuffer::take();
            if take_first(&mut poll, cx, now, first, *length, &mut self.trailers)? {
                begun.response.set_content(mem::take(first));
                begun.rest = Rest::Complete;
            }
        }
        drop(poll);
        Poll::Ready(Ok(begun))
    }

    /// Sends request body bytes that have arrived, as many as the upstream server accepts. Returns `true` if
    /// any part of the request body was sent.
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
            // Dropping the empty pipe returns it to the pool before the next pipe is taken.
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
        // Flushes the bytes that were collected for a single write.
        let _ = exchange.poll_flush(cx, now)?;
        Ok(has_sent)
    }

    /// Reads a part of the response body directly from the connection into a large buffer. Returns `None`
    /// if few body bytes are left, if the client is slow, or if no large buffer is available.
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
        let low_water = &mut self.low_water;
        let moved = exchange.poll_move_content(cx, now, |transport, bytes, cx| {
            let free = buffer.as_mut_slice();
            let length = usize::try_from(bytes).map_or(free.len(), |bytes| bytes.min(free.len()));
            let read = match transport.plain() {
                Some(stream) => low_water
                    .poll_read(stream, bytes, now, |stream| stream.poll_read(cx, &mut free[..length])),
                None => transport.poll_read(cx, &mut free[..length]),
            };
            read.map_ok(|read| read as u64)
        });
        Some(moved.map_ok(|moved| {
            buffer.truncate(usize::try_from(moved).unwrap_or(usize::MAX));
            Piece::Data(Bytes::from_owner(buffer))
        }))
    }

    /// Reads a part of the response body directly from the socket into a pipe. Returns `None` if few body
    /// bytes are left, if the client is slow, if the connection is encrypted, or if no pipe is available.
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
        let low_water = &mut self.low_water;
        let moved = exchange.poll_move_content(cx, now, |stream, bytes, cx| {
            let length = usize::try_from(bytes).unwrap_or(usize::MAX);
            let Some(stream) = stream.plain() else { return Poll::Ready(Ok(0)) };
            let filled =
                low_water.poll_read(stream, bytes, now, |stream| stream.poll_fill(cx, &mut pipe, length));
            filled.map_ok(|moved| moved as u64)
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
        if let Some(stream) = exchange.plain() {
            self.low_water.clear(stream);
        }
        let mut poll = exchange.begin_poll(self.slot.read_buffers(), PIECE_BYTES_MAX);
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

    /// Ends the exchange if it is complete, so that its connection can be reused.
    fn finish(&mut self, now: Duration) {
        if let Some(exchange) = self.take_complete_exchange() {
            self.slot.finish(exchange, now);
        }
    }

    /// Takes the exchange if it is complete. Call this method when the response is complete, because the
    /// timeouts of the exchange then no longer apply.
    #[inline]
    pub(super) fn take_complete_exchange(&mut self) -> Option<Exchange> {
        self.deadline = None;
        self.exchange.take_if(|exchange| exchange.is_complete())
    }

    /// Records that the response body ended too early. Returns an error that closes the connection to the
    /// client. An error response is impossible, because the client has already received the status.
    #[cold]
    pub(super) fn failed(&self, failure: Failure) -> BoxError {
        self.slot.server.statistics().count_failure(failure);
        let is_fault = match failure {
            Failure::Exchange(Error::ContentTimedOut) => !self.may_be_silent,
            // A slow client can also cause this timeout.
            Failure::Exchange(Error::TimedOut) => false,
            _ => true,
        };
        if is_fault {
            self.slot.broke_off(failure);
        }
        failure.into()
    }

    /// Sets a timer that wakes the task when a timeout of the exchange expires.
    fn wait(&mut self, cx: &Context<'_>) {
        let Some(exchange) = &self.exchange else { return };
        if self.deadline.is_none() {
            self.deadline = Some(self.slot.worker.deadlines().register());
        }
        if let Some(deadline) = &self.deadline {
            deadline.set(earlier(exchange.deadline(), self.low_water.deadline()));
            deadline.set_waker(cx.waker());
        }
    }
}

/// Returns the earlier of two times.
fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

/// Appends to `first` the part of a small body that has arrived. Stores the trailers in `kept`. `length` is
/// the length of the body, if known. Returns `true` if the body is complete and has no trailers.
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
        // This function does not read large bodies, because it copies all bytes.
        let left = length.map_or(0, |length| length.saturating_sub(first.len() as u64));
        if first.len() >= WHOLE_BYTES_MAX || left >= LARGE_CONTENT_BYTES {
            return Ok(false);
        }
    }
}

/// Maximum number of body bytes that are sent together with the response head. Longer bodies are streamed.
const WHOLE_BYTES_MAX: usize = 64 << 10;

/// Maximum time in which a fast client reads a piece of a body. Only fast clients get large buffers,
/// because a slow client would occupy a large buffer for a long time.
const FAST_CLIENT: Duration = Duration::from_millis(50);

/// Minimum number of remaining body bytes for which a large buffer is used.
const LARGE_CONTENT_BYTES: u64 = 64 << 10;

/// Maximum number of body bytes in one read, which is the size of the reusable buffers.
const PIECE_BYTES_MAX: usize = 64 << 10;
