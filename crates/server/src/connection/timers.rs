//! Timers for a client.
//!
//! At the end of an iteration, the connection sets the timers for its current state. The next iteration
//! checks them. This needs no registration: see `thruway_net::Deadlines`.

use std::time::Duration;

use thruway_net::ConnectionGuard;

/// Times at which the connection stops waiting.
#[derive(Debug)]
pub(super) struct Timers {
    /// Timer for reading, with its start.
    pub(super) read: Option<(ReadTimer, Duration)>,
    /// Timer for writing.
    pub(super) write: Option<Duration>,
    /// Time of the last progress.
    pub(super) moved_at: Duration,
    /// Time of the first byte of the request with an incomplete head.
    pub(super) head_since: Option<Duration>,
    /// Time since which no byte could be written.
    pub(super) stalled_since: Option<Duration>,
}

/// Reason for a read timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadTimer {
    /// Timeout of a request body.
    Content,
    /// End of a connection without requests during a drain. The delay is short, but data that has already
    /// arrived is still handled.
    DrainIdle,
    /// Timeout of a client that has closed its sending side and waits for a response. Such a client has
    /// probably left.
    HalfClosed,
    /// Timeout of the header section of a request.
    HeaderSection,
    /// Timeout of a connection without requests.
    Idle,
    /// End of the time after the last response.
    Linger,
}

impl Timers {
    pub(super) const fn new(now: Duration) -> Self {
        Self { read: None, write: None, moved_at: now, head_since: None, stalled_since: None }
    }

    /// Returns the time of the first timer.
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
