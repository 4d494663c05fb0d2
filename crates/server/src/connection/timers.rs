//! How long a connection waits for its client.
//!
//! At the end of a turn it is clear what the connection waits for; that sets the timers. At the start of the next one
//! they are looked at. Nothing is registered anywhere meanwhile: see `thruway_net::Deadlines`.

use std::task::Context;
use std::time::Duration;

use thruway_message::StatusCode;
use thruway_net::{ConnectionGuard, Transport};

use super::Connection;
use super::ending::Ending;
use crate::{ContentError, Timeouts};

/// When the connection stops waiting.
#[derive(Debug)]
pub(super) struct Timers {
    /// For the client to send, and for what.
    read: Option<(ReadTimer, Duration)>,
    /// For the client to take what is written.
    write: Option<Duration>,
    /// When anything moved last.
    pub(super) moved_at: Duration,
    /// When the first octets of the request came whose head is not complete.
    pub(super) head_since: Option<Duration>,
    /// Since when no octet could be written.
    pub(super) stalled_since: Option<Duration>,
}

/// What a connection waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ReadTimer {
    /// When to give up the content of a request.
    Content,
    /// When to close a connection that has nothing to do while the server drains: soon, but not before what has
    /// arrived was looked at.
    DrainIdle,
    /// When to take a client for gone that has closed its sending side and awaits an answer.
    HalfClosed,
    /// When to give up the header section of a request.
    HeaderSection,
    /// When to close a connection without requests.
    Idle,
    /// When to close a connection whose last answer the client has had time to read.
    Linger,
}

impl Timers {
    pub(super) const fn new(now: Duration) -> Self {
        Self { read: None, write: None, moved_at: now, head_since: None, stalled_since: None }
    }

    /// The first of the timers.
    fn next(&self) -> Option<Duration> {
        let read = self.read.map(|(_, at)| at);
        match (read, self.write) {
            (Some(read), Some(write)) => Some(read.min(write)),
            (read, write) => read.or(write),
        }
    }
}

impl<T: Transport> Connection<T> {
    /// Acts on the timers that have run out.
    #[inline]
    pub(super) fn handle_deadline(&mut self, cx: &mut Context<'_>, now: Duration) {
        if self.timers.next().is_some_and(|at| at <= now) {
            self.handle_overdue(cx, now);
        }
    }

    #[cold]
    fn handle_overdue(&mut self, cx: &mut Context<'_>, now: Duration) {
        if self.timers.write.is_some_and(|at| at <= now) {
            // Otherwise the kernel would go on waiting where we have given up.
            self.transport.discard_unsent();
            self.ending = Ending::Abort;
            return;
        }
        match self.timers.read.take() {
            Some((ReadTimer::HeaderSection, _)) => {
                self.refuse(StatusCode::REQUEST_TIMEOUT, "the header section arrives too slowly");
            }
            Some((ReadTimer::Content, _)) => self.fail_incoming(ContentError::TimedOut),
            Some((ReadTimer::HalfClosed, _)) if self.is_ended_by_connection() => {
                // To close it, even without a word, would say that the answer is complete.
                self.ending = Ending::Reset;
            }
            Some((_, _)) => {
                // A client that still takes what was written before has the time that it is given for that.
                let is_sent = self.transport.poll_close(cx).is_ready();
                self.ending = if is_sent { Ending::Abort } else { Ending::Close };
            }
            None => {}
        }
    }

    /// Whether the end of the connection would be the end of the answer that is being written.
    fn is_ended_by_connection(&self) -> bool {
        self.streaming.as_ref().is_some_and(|streaming| streaming.ends_with_connection())
    }

    /// Sets the timers for what the connection waits for now.
    #[inline]
    pub(super) fn set_deadline(&mut self, now: Duration) {
        let timeouts = self.service.config.timeouts;
        self.timers.read = self.read_timer(&timeouts, now);
        self.timers.write = if self.is_writing() {
            Some(*self.timers.stalled_since.get_or_insert(now) + timeouts.write_stall)
        } else {
            self.timers.stalled_since = None;
            None
        };
        self.deadline.set(self.timers.next());
    }

    /// Whether the client is to take what is written: nothing else keeps a connection from its end.
    #[inline]
    fn is_writing(&self) -> bool {
        !self.output.is_empty() || (self.ending.is_due() && !matches!(self.ending, Ending::Lingering { .. }))
    }

    #[inline]
    fn read_timer(&self, timeouts: &Timeouts, now: Duration) -> Option<(ReadTimer, Duration)> {
        if let Ending::Lingering { until, .. } = self.ending {
            return Some((ReadTimer::Linger, until));
        }
        if self.ending.is_due() {
            // What is still to be written has the timer of writing.
            return None;
        }
        if let Some(incoming) = &self.incoming {
            return incoming.deadline(timeouts).map(|at| (ReadTimer::Content, at));
        }
        let awaits_answer = !self.exchanges.is_empty() || self.streaming.is_some();
        if self.is_input_ended() && awaits_answer && self.output.is_empty() {
            return Some((ReadTimer::HalfClosed, self.timers.moved_at + timeouts.half_closed));
        }
        if awaits_answer || self.is_input_ended() {
            return None;
        }
        if let Some(since) = self.timers.head_since {
            return Some((ReadTimer::HeaderSection, since + patience(&self.guard, timeouts.header_section)));
        }
        if !self.output.is_empty() {
            // It is not idle: the client is to take what is written.
            return None;
        }
        if self.guard.is_draining() {
            return Some((ReadTimer::DrainIdle, self.timers.moved_at.max(now) + DRAIN_IDLE));
        }
        Some((ReadTimer::Idle, self.timers.moved_at + patience(&self.guard, timeouts.idle)))
    }
}

/// How long to wait for a client to say something, which is `timeout` unless it is one too many.
pub(super) fn patience(guard: &ConnectionGuard, timeout: Duration) -> Duration {
    if guard.is_over_limit() { OVER_LIMIT_PATIENCE.min(timeout) } else { timeout }
}

/// How long one connection too many may take to ask for something, to be told so.
pub(crate) const OVER_LIMIT_PATIENCE: Duration = Duration::from_secs(2);

/// Long enough for the reactor to report what has arrived.
const DRAIN_IDLE: Duration = Duration::from_millis(150);
