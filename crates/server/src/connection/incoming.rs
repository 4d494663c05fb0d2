//! The content of a request while it arrives.

use std::task::{Context, Poll};
use std::time::Duration;

use thruway_net::Pipe;

use crate::config::Timeouts;
use crate::request::{ContentError, ContentSender};

/// Destination of arriving content, with its arrival times.
pub(crate) struct IncomingContent {
    target: Target,
    /// The client waits for `100 (Continue)`.
    pub(crate) owes_continue: bool,
    /// Number of bytes in the last read.
    last_bytes: usize,
    /// Time up to which the client has sent enough, never in the future: see [`pay`](Self::pay).
    paid_until: Duration,
    /// Time since which the server has not read, because the handler is slow.
    paused_since: Option<Duration>,
}

enum Target {
    /// The handler.
    Handler(ContentSender),
    /// No handler reads the content: the connection discards up to `left` bytes, so that it can continue.
    Nobody { left: u64 },
}

impl IncomingContent {
    pub(crate) const fn new(sender: ContentSender, owes_continue: bool, now: Duration) -> Self {
        Self {
            target: Target::Handler(sender),
            owes_continue,
            last_bytes: 0,
            paid_until: now,
            paused_since: None,
        }
    }

    /// Takes a piece of content.
    ///
    /// # Errors
    /// Receives content. Fails if no handler reads it and it exceeds the bytes to discard.
    pub(crate) fn receive(
        &mut self,
        content: &[u8],
        timeouts: &Timeouts,
        now: Duration,
    ) -> Result<(), TooMuchToDiscard> {
        self.pay(content.len(), timeouts, now);
        match &mut self.target {
            Target::Handler(sender) => sender.send(content),
            Target::Nobody { left } => {
                *left = left.checked_sub(content.len() as u64).ok_or(TooMuchToDiscard)?;
            }
        }
        Ok(())
    }

    /// Returns `true` if the next content should go into a pipe: it arrives fast, and the reader takes pipes.
    pub(super) fn wants_pipe(&self) -> bool {
        self.last_bytes >= BULK_BYTES && self.sender().is_some_and(ContentSender::wants_pipe)
    }

    /// Takes content in a pipe.
    pub(super) fn receive_pipe(&mut self, pipe: Pipe, timeouts: &Timeouts, now: Duration) {
        self.pay(pipe.len(), timeouts, now);
        if let Some(sender) = self.sender() {
            sender.send_pipe(pipe);
        }
    }

    /// Counts bytes that have arrived: at the minimum rate, they take a certain time, and the deadline moves
    /// by that.
    ///
    /// This is a token bucket. It never holds more than the timeout, because otherwise a client that sends a
    /// few megabytes at once could then keep them in memory for hours.
    fn pay(&mut self, bytes: usize, timeouts: &Timeouts, now: Duration) {
        self.last_bytes = bytes;
        let nanoseconds =
            (bytes as u64).saturating_mul(NANOSECONDS_PER_SECOND) / timeouts.content_rate_min.max(1);
        self.paid_until = now.min(self.paid_until + Duration::from_nanos(nanoseconds));
    }

    /// The content will never be complete.
    pub(crate) fn fail(&self, error: ContentError) {
        if let Target::Handler(sender) = &self.target {
            sender.fail(error);
        }
    }

    /// The handler's end, if it has one.
    pub(crate) const fn sender(&self) -> Option<&ContentSender> {
        match &self.target {
            Target::Handler(sender) => Some(sender),
            Target::Nobody { .. } => None,
        }
    }

    /// Discards the rest of the content, at most `left` bytes.
    pub(crate) fn discard(&mut self, left: u64) {
        self.target = Target::Nobody { left };
        self.owes_continue = false;
    }

    /// Returns `true` if the handler has dropped the content.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.sender().is_none_or(ContentSender::is_abandoned)
    }

    /// Returns `true` if `100 (Continue)` must be sent now: the client waits for it, and the handler waits
    /// for content.
    pub(crate) fn take_continue(&mut self, now: Duration) -> bool {
        let is_due = self.owes_continue && self.sender().is_some_and(ContentSender::is_wanted);
        if is_due {
            self.owes_continue = false;
            self.paid_until = now;
        }
        is_due
    }

    /// Returns the number of bytes that may be read. If it is 0, the task is woken when that changes.
    pub(crate) fn poll_room(
        &mut self,
        window_bytes: usize,
        now: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<usize> {
        let room = match &self.target {
            Target::Handler(sender) => sender.poll_room(window_bytes, cx),
            Target::Nobody { .. } => Poll::Ready(usize::MAX),
        };
        match room {
            Poll::Pending => {
                self.paused_since.get_or_insert(now);
            }
            Poll::Ready(_) => {
                // The time in which we did not read is not the client's.
                self.paid_until +=
                    self.paused_since.take().map_or(Duration::ZERO, |since| now.saturating_sub(since));
            }
        }
        room
    }

    /// When to give up; never while the client is right to wait for us.
    pub(crate) fn deadline(&self, timeouts: &Timeouts) -> Option<Duration> {
        let is_client_due = self.paused_since.is_none() && !self.owes_continue;
        is_client_due.then(|| self.paid_until + timeouts.content)
    }
}

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// Less at a time is not worth the system calls of a pipe.
const BULK_BYTES: usize = 16 << 10;

/// The unread content exceeds the bytes to discard.
#[derive(Debug)]
pub(crate) struct TooMuchToDiscard;
