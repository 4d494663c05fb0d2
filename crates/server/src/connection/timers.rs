//! Timers of a connection.
//!
//! At the end of a poll, the connection sets the timers for its current state. The next poll checks if a
//! timer has expired. Setting a timer only writes a number into a table: see `thruway_net::Deadlines`.

use std::time::Duration;

use thruway_net::ConnectionGuard;

/// Times at which the connection stops waiting.
#[derive(Debug)]
pub(super) struct Timers {
    /// Timer for reading, and the time at which it expires.
    pub(super) read: Option<(ReadTimer, Duration)>,
    /// Time at which the timer for writing expires.
    pub(super) write: Option<Duration>,
    /// Time at which the connection last made progress.
    pub(super) moved_at: Duration,
    /// Time at which the first byte of an incomplete request head arrived. `None` if no head is incomplete.
    pub(super) head_since: Option<Duration>,
    /// Start of the current write stall, in which the client accepts no bytes. `None` without a stall.
    pub(super) stalled_since: Option<Duration>,
}

/// The timeout for which a read timer is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadTimer {
    /// Timeout of a request body.
    Content,
    /// Time until a graceful shutdown closes a connection without requests. It is short, but long enough to
    /// handle data that has already arrived.
    DrainIdle,
    /// Timeout of a client that has closed its sending side and waits for a response. Such a client has
    /// probably left.
    HalfClosed,
    /// Timeout of the header section of a request.
    HeaderSection,
    /// Timeout of a connection without requests.
    Idle,
    /// End of the time in which the client can read the last response.
    Linger,
}

impl Timers {
    pub(super) const fn new(now: Duration) -> Self {
        Self { read: None, write: None, moved_at: now, head_since: None, stalled_since: None }
    }

    /// Returns the time at which the next timer expires.
    pub(super) fn next(&self) -> Option<Duration> {
        let read = self.read.map(|(_, at)| at);
        match (read, self.write) {
            (Some(read), Some(write)) => Some(read.min(write)),
            (read, write) => read.or(write),
        }
    }
}

/// Returns the maximum time to wait for a client. This is `timeout`, or a shorter time for a connection above
/// the connection limit.
pub(super) fn limited_timeout(guard: &ConnectionGuard, timeout: Duration) -> Duration {
    if guard.is_over_limit() { OVER_LIMIT_TIMEOUT_MAX.min(timeout) } else { timeout }
}

/// Maximum time to wait for a request on a connection above the connection limit. The request then gets 503.
pub(crate) const OVER_LIMIT_TIMEOUT_MAX: Duration = Duration::from_secs(2);
