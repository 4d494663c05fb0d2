//! Request bodies that are still arriving.

use std::task::{Context, Poll};
use std::time::Duration;

use thruway_net::Pipe;

use crate::config::Timeouts;
use crate::request::{ContentError, ContentSender};

/// An arriving request body: its destination and its timeout.
pub(crate) struct IncomingContent {
    target: Target,
    /// `true` if the client waits for `100 (Continue)`.
    pub(crate) owes_continue: bool,
    /// Number of bytes in the last read.
    last_bytes: usize,
    /// Time at which the received bytes would have arrived if the client had sent them at the minimum rate.
    /// Never in the future: see [`credit`](Self::credit).
    paid_until: Duration,
    /// Time at which the server paused reading, because the handler reads too slowly. `None` while the server
    /// reads.
    paused_since: Option<Duration>,
}

enum Target {
    /// The handler reads the body.
    Handler(ContentSender),
    /// No handler reads the body. The connection discards up to `left` bytes, so that it can be reused.
    Discard { left: u64 },
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

    /// Receives a part of the body.
    ///
    /// # Errors
    /// No handler reads the body, and the body exceeds the number of bytes to discard.
    pub(crate) fn receive(
        &mut self,
        content: &[u8],
        timeouts: &Timeouts,
        now: Duration,
    ) -> Result<(), TooMuchToDiscard> {
        self.credit(content.len(), timeouts, now);
        match &mut self.target {
            Target::Handler(sender) => sender.send(content),
            Target::Discard { left } => {
                *left = left.checked_sub(content.len() as u64).ok_or(TooMuchToDiscard)?;
            }
        }
        Ok(())
    }

    /// Returns `true` if the connection should read the next data into a pipe, because data arrives fast and
    /// the handler accepts pipes.
    pub(super) fn wants_pipe(&self) -> bool {
        self.last_bytes >= BULK_BYTES && self.sender().is_some_and(ContentSender::wants_pipe)
    }

    /// Receives a part of the body in a pipe.
    pub(super) fn receive_pipe(&mut self, pipe: Pipe, timeouts: &Timeouts, now: Duration) {
        self.credit(pipe.len(), timeouts, now);
        if let Some(sender) = self.sender() {
            sender.send_pipe(pipe);
        }
    }

    /// Counts received bytes. Each byte extends the deadline by the time that one byte takes at the minimum
    /// rate.
    ///
    /// The time until the deadline is never longer than the timeout. Without this bound, a client could send
    /// a few megabytes at once and then pause for hours, while the server keeps them in memory.
    fn credit(&mut self, bytes: usize, timeouts: &Timeouts, now: Duration) {
        self.last_bytes = bytes;
        let nanoseconds =
            (bytes as u64).saturating_mul(NANOSECONDS_PER_SECOND) / timeouts.content_rate_min.max(1);
        self.paid_until = now.min(self.paid_until + Duration::from_nanos(nanoseconds));
    }

    /// Ends the body with an error.
    pub(crate) fn fail(&self, error: ContentError) {
        if let Target::Handler(sender) = &self.target {
            sender.fail(error);
        }
    }

    /// Returns the channel to the handler, if the handler reads the body.
    pub(crate) const fn sender(&self) -> Option<&ContentSender> {
        match &self.target {
            Target::Handler(sender) => Some(sender),
            Target::Discard { .. } => None,
        }
    }

    /// Discards the remaining bytes of the body, at most `left`.
    pub(crate) fn discard(&mut self, left: u64) {
        self.target = Target::Discard { left };
        self.owes_continue = false;
    }

    /// Returns `true` if the handler has dropped the body.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.sender().is_none_or(ContentSender::is_abandoned)
    }

    /// Returns `true` if `100 (Continue)` must be sent now: the client waits for it, and the handler waits
    /// for the body.
    pub(crate) fn take_continue(&mut self, now: Duration) -> bool {
        let is_due = self.owes_continue && self.sender().is_some_and(ContentSender::is_wanted);
        if is_due {
            self.owes_continue = false;
            self.paid_until = now;
        }
        is_due
    }

    /// Returns the number of bytes that the connection may read. While the number is 0, the result is
    /// pending, and the task is woken when the handler has read data.
    pub(crate) fn poll_write_capacity(
        &mut self,
        window_bytes: usize,
        now: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<usize> {
        let capacity = match &self.target {
            Target::Handler(sender) => sender.poll_write_capacity(window_bytes, cx),
            Target::Discard { .. } => Poll::Ready(usize::MAX),
        };
        match capacity {
            Poll::Pending => {
                self.paused_since.get_or_insert(now);
            }
            Poll::Ready(_) => {
                // The timeout pauses while the server reads nothing.
                self.paid_until +=
                    self.paused_since.take().map_or(Duration::ZERO, |since| now.saturating_sub(since));
            }
        }
        capacity
    }

    /// Returns the time at which the body times out. `None` while the server pauses reading, or while the
    /// client waits for `100 (Continue)`.
    pub(crate) fn deadline(&self, timeouts: &Timeouts) -> Option<Duration> {
        let is_client_due = self.paused_since.is_none() && !self.owes_continue;
        is_client_due.then(|| self.paid_until + timeouts.content)
    }
}

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// Number of bytes that the previous read must have returned before the next read uses a pipe. For less data,
/// the system calls of a pipe cost more than a copy.
const BULK_BYTES: usize = 16 << 10;

/// The error if an unread body exceeds the number of bytes to discard.
#[derive(Debug)]
pub(crate) struct TooMuchToDiscard;
