//! Timers for a client.
//!
//! At the end of a turn it is clear what the connection waits for; that sets the timers. At the start of the
//! next one they are looked at. Nothing is registered anywhere meanwhile: see `thruway_net::Deadlines`.

use std::time::Duration;

use thruway_net::ConnectionGuard;

/// When the connection stops waiting.
#[derive(Debug)]
pub(super) struct Timers {
    /// Timer for reading, with its start.
    pub(super) read: Option<(ReadTimer, Duration)>,
    /// Timer for the client to take the output.
    pub(super) write: Option<Duration>,
    /// When anything moved last.
    pub(super) moved_at: Duration,
    /// Time of the first byte of the request with an incomplete head.
    pub(super) head_since: Option<Duration>,
    /// Time since which no byte could be written.
    pub(super) stalled_since: Option<Duration>,
}

/// Reason for a read timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadTimer {
    /// When to give up the content of a request.
    Content,
    /// When to close a connection that has nothing to do while the server drains: soon, but not before what
    /// has arrived was looked at.
    DrainIdle,
    /// When to take a client for gone that has closed its sending side and awaits an answer.
    HalfClosed,
    /// When to give up the header section of a request.
    HeaderSection,
    /// When to close a connection without requests.
    Idle,
    /// Time to close a connection after its last answer.
    Linger,
}

impl Timers {
    pub(super) const fn new(now: Duration) -> Self {
        Self { read: None, write: None, moved_at: now, head_since: None, stalled_since: None }
    }

    /// The first of the timers.
    pub(super) fn next(&self) -> Option<Duration> {
        let read = self.read.map(|(_, at)| at);
        match (read, self.write) {
            (Some(read), Some(write)) => Some(read.min(write)),
            (read, write) => read.or(write),
        }
    }
}

/// Returns the time to wait for a client: `timeout`, or less for a connection over the limit.
pub(super) fn patience(guard: &ConnectionGuard, timeout: Duration) -> Duration {
    if guard.is_over_limit() { OVER_LIMIT_PATIENCE.min(timeout) } else { timeout }
}

/// Time in which a connection over the limit must send a request to get a 503 response.
pub(crate) const OVER_LIMIT_PATIENCE: Duration = Duration::from_secs(2);
