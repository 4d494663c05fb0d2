//! The request out: framed, and written as fast as the upstream takes it.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use thruway_http1::{write_chunk, write_chunk_end, write_chunk_start, write_last_chunk};
use thruway_message::FieldLinesBuf;
use thruway_net::{Pipe, Transport};

use super::exchange::Exchange;
use super::state::{Sending, State};
use crate::Error;

impl<T: Transport> Exchange<T> {
    /// Whether content is still to be sent. Not if all of it was, and not if the upstream has answered
    /// without waiting for it: an answer other than a success, or a whole one.
    pub const fn wants_content(&self) -> bool {
        matches!(self.0.sending, Sending::Octets { .. } | Sending::Chunked)
    }

    /// Ready when content may be sent: little enough waits to be written, and the upstream has said `100
    /// (Continue)` if that was to be waited for. Who has to fetch the content asks here first.
    ///
    /// # Errors
    /// A deadline has passed.
    pub fn poll_room(&mut self, cx: &mut Context<'_>, now: Duration) -> Poll<Result<(), Error>> {
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

    /// Takes some of `content`, at least an octet unless it is empty, to be sent behind what was sent before.
    /// Returns how much. A little is kept until there is more, or until [`poll_flush`](Self::poll_flush) or a
    /// [turn](Self::turn); a lot is written at once, from where it is. Nothing is done with what is not
    /// [wanted](Self::wants_content) any more.
    ///
    /// # Errors
    /// A deadline has passed, or there is more than was announced.
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
        content: &[u8],
    ) -> Poll<Result<usize, Error>> {
        let state = &mut *self.0;
        match state.sending {
            Sending::Stopped => return Poll::Ready(Ok(content.len())),
            Sending::Octets { remaining } if content.len() as u64 <= remaining => {}
            Sending::Chunked => {}
            Sending::Complete if content.is_empty() => {}
            Sending::Octets { .. } | Sending::Complete => {
                return Poll::Ready(Err(Error::RequestContentTooLong));
            }
        }
        if content.is_empty() {
            return Poll::Ready(Ok(0));
        }
        ready!(self.poll_room(cx, now))?;
        let state = &mut *self.0;
        match state.sending {
            Sending::Octets { remaining } if content.len() <= COPY_BYTES_MAX => {
                state.output.octets().extend_from_slice(content);
                state.sending = Sending::after(remaining, content.len());
                Poll::Ready(Ok(content.len()))
            }
            Sending::Octets { remaining } => state.poll_write_large(cx, now, content, remaining),
            Sending::Chunked if content.len() <= COPY_BYTES_MAX => {
                write_chunk(state.output.octets(), content);
                Poll::Ready(Ok(content.len()))
            }
            Sending::Chunked => state.write_large_chunk(cx, now, content),
            // Writing has failed meanwhile.
            Sending::Complete | Sending::Stopped => Poll::Ready(Ok(content.len())),
        }
    }

    /// Whether [`poll_send_pipe`](Self::poll_send_pipe) can be used, and does without copying.
    pub fn takes_pipes(&self) -> bool {
        matches!(self.0.sending, Sending::Octets { .. }) && self.0.transport.splices()
    }

    /// Takes some of what is in `pipe`, which is not empty, as [`poll_send`](Self::poll_send) does of octets.
    /// What is not [wanted](Self::wants_content) any more stays there.
    ///
    /// # Errors
    /// A deadline has passed, or there is more than was announced.
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
            Sending::Octets { remaining } if pipe.len() as u64 <= remaining => remaining,
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

    /// The content is complete; chunked content ends with `trailers`.
    ///
    /// # Errors
    /// There was less of it than was announced.
    pub fn finish_content(&mut self, trailers: &FieldLinesBuf) -> Result<(), Error> {
        match self.0.sending {
            Sending::Octets { .. } => return Err(Error::RequestContentTooShort),
            Sending::Chunked => {
                write_last_chunk(self.0.output.octets(), trailers);
                self.0.sending = Sending::Complete;
            }
            Sending::Complete | Sending::Stopped => {}
        }
        Ok(())
    }

    /// Writes what waits to be written. Turns do that too.
    ///
    /// # Errors
    /// A deadline has passed. That the connection has failed is found when the response is read, which may
    /// have come before.
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

    /// Writes some of what waits, and of `content` behind it. Returns how much of that was taken.
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
                // A server that refuses a request without having read it answers and closes: the answer may
                // be there.
                self.stop_sending();
                Poll::Ready(Ok(content.len()))
            }
        }
    }

    /// Writes some of `content` from where it is.
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

    /// Writes a chunk of `content` from where it is, and keeps the rest of the chunk: what was announced must
    /// follow.
    fn write_large_chunk(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
        content: &[u8],
    ) -> Poll<Result<usize, Error>> {
        let chunk = &content[..content.len().min(CHUNK_BYTES_MAX)];
        write_chunk_start(self.output.octets(), chunk.len() as u64);
        let taken = match self.poll_write(cx, now, chunk)? {
            Poll::Ready(taken) => taken,
            Poll::Pending => 0,
        };
        if self.sending != Sending::Stopped {
            self.output.octets().extend_from_slice(&chunk[taken..]);
            write_chunk_end(self.output.octets());
        }
        Poll::Ready(Ok(chunk.len()))
    }
}

/// Content is kept until so much waits, and no further taken when it does.
const OUTPUT_BYTES: usize = 32 << 10;

/// Larger content is written from where it is; up to this size one more copy is cheaper than one more system
/// call.
const COPY_BYTES_MAX: usize = 16 << 10;

/// What of a chunk the upstream does not take must be kept.
const CHUNK_BYTES_MAX: usize = 64 << 10;
