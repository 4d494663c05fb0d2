//! Frames the outgoing request, and writes it as fast as the upstream server accepts it.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use thruway_http1::{write_chunk, write_chunk_end, write_chunk_start, write_last_chunk};
use thruway_message::FieldLinesBuf;
use thruway_net::{Pipe, Transport};

use super::exchange::Exchange;
use super::state::{Sending, State};
use crate::Error;

impl<T: Transport> Exchange<T> {
    /// Sends the head of a request that [started without a head](super::Connection::start_without_head).
    /// Writes `head` directly, and buffers only the bytes that the transport does not accept. If the request
    /// has a body, `head` may end with the body.
    ///
    /// # Errors
    /// Returns an error if a timeout has expired.
    #[inline]
    pub fn send_head(&mut self, cx: &mut Context<'_>, now: Duration, head: &[u8]) -> Result<(), Error> {
        let state = &mut *self.0;
        debug_assert!(state.output.is_empty(), "the head comes first");
        let written = match state.poll_write(cx, now, head)? {
            Poll::Ready(written) => written,
            Poll::Pending => 0,
        };
        if written < head.len() {
            state.output.bytes().extend_from_slice(&head[written..]);
        }
        Ok(())
    }

    /// Returns `true` if the caller can send more of the request body. Returns `false` after the whole
    /// body was sent, and after a write error. Also returns `false` after a response with a status other
    /// than success, and after the end of any response.
    pub const fn wants_content(&self) -> bool {
        matches!(self.0.sending, Sending::Bytes { .. } | Sending::Chunked)
    }

    /// Becomes ready when the caller can send body bytes. The output buffer then has space, and the wait
    /// for a required `100 (Continue)` is over. Call this function before fetching the bytes.
    ///
    /// # Errors
    /// Returns an error if a timeout has expired.
    pub fn poll_write_capacity(&mut self, cx: &mut Context<'_>, now: Duration) -> Poll<Result<(), Error>> {
        if self.0.must_wait(now) {
            return Poll::Pending;
        }
        let is_full = |state: &State<T>| state.output.len() >= OUTPUT_BYTES;
        if is_full(&self.0)
            && let Poll::Ready(Err(error)) = self.0.poll_flush(cx, now)
        {
            return Poll::Ready(Err(error));
        }
        if is_full(&self.0) { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    /// Sends bytes from the start of `content`, and returns their number. The number is at least 1 unless
    /// `content` is empty. Buffers small pieces until the buffer is full, or until the caller calls
    /// [`poll_flush`](Self::poll_flush) or [`poll_event`](super::ResponsePoll::poll_event). Writes large
    /// pieces directly. If the upstream server no longer [wants](Self::wants_content) the body, discards
    /// `content`.
    ///
    /// # Errors
    /// Returns an error if a timeout has expired, or if the body is longer than the head has announced.
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
        content: &[u8],
    ) -> Poll<Result<usize, Error>> {
        let state = &mut *self.0;
        match state.sending {
            Sending::Stopped => return Poll::Ready(Ok(content.len())),
            Sending::Bytes { remaining } if content.len() as u64 <= remaining => {}
            Sending::Chunked => {}
            Sending::Complete if content.is_empty() => {}
            Sending::Bytes { .. } | Sending::Complete => {
                return Poll::Ready(Err(Error::RequestContentTooLong));
            }
        }
        if content.is_empty() {
            return Poll::Ready(Ok(0));
        }
        ready!(self.poll_write_capacity(cx, now))?;
        let state = &mut *self.0;
        match state.sending {
            Sending::Bytes { remaining } if content.len() <= COPY_BYTES_MAX => {
                state.output.bytes().extend_from_slice(content);
                state.sending = Sending::after(remaining, content.len());
                Poll::Ready(Ok(content.len()))
            }
            Sending::Bytes { remaining } => state.poll_write_large(cx, now, content, remaining),
            Sending::Chunked if content.len() <= COPY_BYTES_MAX => {
                write_chunk(state.output.bytes(), content);
                Poll::Ready(Ok(content.len()))
            }
            Sending::Chunked => state.write_large_chunk(cx, now, content),
            // A write error in `poll_write_capacity` has stopped the request.
            Sending::Complete | Sending::Stopped => Poll::Ready(Ok(content.len())),
        }
    }

    /// Returns `true` if [`poll_send_pipe`](Self::poll_send_pipe) is possible and works without copying.
    pub fn takes_pipes(&self) -> bool {
        matches!(self.0.sending, Sending::Bytes { .. }) && self.0.transport.splices()
    }

    /// Sends bytes from `pipe`, which must not be empty, and returns their number. If the upstream server
    /// no longer [wants](Self::wants_content) the body, the bytes stay in the pipe and the result is 0.
    ///
    /// # Errors
    /// Returns an error if a timeout has expired, or if the body is longer than the head has announced.
    pub fn poll_send_pipe(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
        pipe: &mut Pipe,
    ) -> Poll<Result<usize, Error>> {
        let state = &mut *self.0;
        if state.must_wait(now) {
            return Poll::Pending;
        }
        ready!(state.poll_flush(cx, now))?;
        let remaining = match state.sending {
            Sending::Stopped => return Poll::Ready(Ok(0)),
            Sending::Bytes { remaining } if pipe.len() as u64 <= remaining => remaining,
            _ => return Poll::Ready(Err(Error::RequestContentTooLong)),
        };
        match state.transport.poll_splice(cx, pipe) {
            Poll::Pending => {
                state.wait_to_write(now)?;
                Poll::Pending
            }
            Poll::Ready(Ok(taken @ 1..)) => {
                state.has_sent = true;
                state.timers.stalled_since = None;
                state.sending = Sending::after(remaining, taken);
                Poll::Ready(Ok(taken))
            }
            Poll::Ready(Ok(0) | Err(_)) => {
                state.stop_sending();
                Poll::Ready(Ok(0))
            }
        }
    }

    /// Ends the request body. Sends `trailers` at the end of a chunked body.
    ///
    /// # Errors
    /// Returns an error if the body is shorter than the head has announced.
    pub fn finish_content(&mut self, trailers: &FieldLinesBuf) -> Result<(), Error> {
        match self.0.sending {
            Sending::Bytes { .. } => return Err(Error::RequestContentTooShort),
            Sending::Chunked => {
                write_last_chunk(self.0.output.bytes(), trailers);
                self.0.sending = Sending::Complete;
            }
            Sending::Complete | Sending::Stopped => {}
        }
        Ok(())
    }

    /// Writes all buffered bytes. [`poll_event`](super::ResponsePoll::poll_event) also writes buffered
    /// bytes.
    ///
    /// # Errors
    /// Returns an error if a timeout has expired. If the connection has failed,
    /// [`poll_event`](super::ResponsePoll::poll_event) reports the failure, because a response may have
    /// arrived before the failure.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>, now: Duration) -> Poll<Result<(), Error>> {
        self.0.poll_flush(cx, now)
    }
}

impl<T: Transport> State<T> {
    #[inline]
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>, now: Duration) -> Poll<Result<(), Error>> {
        while !self.output.is_empty() {
            ready!(self.poll_write(cx, now, &[]))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes buffered bytes and then bytes of `content`, as many as the transport accepts. Returns the
    /// number of written bytes from `content`.
    #[inline]
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
        content: &[u8],
    ) -> Poll<Result<usize, Error>> {
        match self.output.poll_write(cx, &mut self.transport, content) {
            Poll::Pending => {
                self.wait_to_write(now)?;
                Poll::Pending
            }
            Poll::Ready(Ok((_, of_content))) => {
                self.has_sent = true;
                self.timers.stalled_since = None;
                Poll::Ready(Ok(of_content))
            }
            Poll::Ready(Err(_)) => {
                // A server that refuses a request may respond, and close the connection without reading
                // the request. The response may have arrived, so the exchange still reads it.
                self.stop_sending();
                Poll::Ready(Ok(content.len()))
            }
        }
    }

    /// Writes bytes of `content` without copying them to the buffer. Returns the number of written bytes.
    fn poll_write_large(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
        content: &[u8],
        remaining: u64,
    ) -> Poll<Result<usize, Error>> {
        loop {
            let taken = ready!(self.poll_write(cx, now, content))?;
            if self.sending == Sending::Stopped {
                return Poll::Ready(Ok(taken));
            }
            if taken > 0 {
                self.sending = Sending::after(remaining, taken);
                return Poll::Ready(Ok(taken));
            }
        }
    }

    /// Writes a chunk of `content` without copying the whole chunk to the buffer. Buffers the part of the
    /// chunk that the transport does not accept, because a chunk must have its announced size.
    fn write_large_chunk(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
        content: &[u8],
    ) -> Poll<Result<usize, Error>> {
        let chunk = &content[..content.len().min(CHUNK_BYTES_MAX)];
        write_chunk_start(self.output.bytes(), chunk.len() as u64);
        let taken = match self.poll_write(cx, now, chunk)? {
            Poll::Ready(taken) => taken,
            Poll::Pending => 0,
        };
        if self.sending != Sending::Stopped {
            self.output.bytes().extend_from_slice(&chunk[taken..]);
            write_chunk_end(self.output.bytes());
        }
        Poll::Ready(Ok(chunk.len()))
    }
}

/// Number of buffered bytes at which the exchange accepts no more of the body.
const OUTPUT_BYTES: usize = 32 << 10;

/// Maximum size of a piece that is buffered, in bytes. For such a piece, a copy is cheaper than a system
/// call.
const COPY_BYTES_MAX: usize = 16 << 10;

/// Maximum size of a chunk in bytes. A small chunk leaves few bytes to buffer if the upstream server does
/// not accept the whole chunk.
const CHUNK_BYTES_MAX: usize = 64 << 10;
