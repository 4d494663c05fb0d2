//! The end of a connection and its timeouts.

use std::task::Poll;
use std::time::Duration;

use h2::Reason;
use thruway_net::Transport;

use super::connection::{Connection, Phase, PollOutcome};
use crate::connection::OVER_LIMIT_TIMEOUT_MAX;

impl<T: Transport> Connection<T> {
    /// If the connection must end, sends a GOAWAY frame, so that the client opens no further streams. The
    /// server still completes the open streams (RFC 9113 §6.8).
    pub(super) fn leave_if_due(&mut self, now: Duration) {
        let requests_max = self.connected.service.config.limits.requests_per_connection;
        let guard = &self.connected.guard;
        let is_due = guard.is_draining()
            || (guard.is_over_limit() && self.requests > 0)
            || (requests_max != 0 && self.requests >= requests_max);
        if is_due
            && self.leaving_since.is_none()
            && let Phase::Open(library) = &mut self.phase
        {
            library.graceful_shutdown();
            self.leaving_since = Some(now);
        }
    }

    /// Sends a GOAWAY frame with this reason, and then ends the connection.
    pub(super) fn abort(&mut self, reason: Reason) {
        if !self.is_aborted
            && let Phase::Open(library) = &mut self.phase
        {
            self.is_aborted = true;
            library.abrupt_shutdown(reason);
        }
    }

    /// Called when the library reports the end of the connection. `error` is the error that has ended it, if
    /// any.
    pub(super) fn ended(&mut self, error: Option<&h2::Error>, now: Duration) -> PollOutcome {
        self.break_off_streams();
        if let Some(error) = error {
            tracing::debug!(%error, "HTTP/2 connection failed");
            if error.is_io() {
                return PollOutcome::IsOver;
            }
        }
        let until = now + self.connected.service.config.timeouts.linger;
        self.phase = Phase::Lingers { until, left_bytes: LINGER_BYTES_MAX };
        PollOutcome::Moved
    }

    /// Ends all streams. Responses that are not complete stay incomplete.
    pub(super) fn break_off_streams(&mut self) {
        self.streams.iter_mut().for_each(super::stream::Stream::break_off);
        self.streams.clear();
    }

    /// Returns the time at which the next timeout of the connection expires.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let timeouts = self.connected.service.config.timeouts;
        let times = self.wire.times();
        let stalled = times.stalled_since.map(|since| since + timeouts.write_stall);
        let waiting = match &self.phase {
            Phase::Begins(_) => Some(self.busy_at + timeouts.header_section),
            Phase::Open(_) => {
                let section = times.section_since.map(|since| since + timeouts.header_section);
                section.into_iter().chain(self.quiet_deadline()).min()
            }
            Phase::Lingers { until, .. } => Some(*until),
        };
        stalled.into_iter().chain(waiting).min()
    }

    /// Returns the time at which a connection without requests closes. `None` while requests are in progress.
    /// Also `None` while the client does not read, because then the write timeout applies.
    fn quiet_deadline(&self) -> Option<Duration> {
        let timeouts = self.connected.service.config.timeouts;
        let times = self.wire.times();
        if !self.streams.is_empty() || times.stalled_since.is_some() {
            return None;
        }
        if let Some(since) = self.leaving_since {
            // The client may still be reading responses, because the library buffers their last bytes.
            return Some(since.max(self.busy_at).max(times.written_at) + timeouts.linger);
        }
        let is_over_limit = self.connected.guard.is_over_limit();
        let idle = if is_over_limit { OVER_LIMIT_TIMEOUT_MAX.min(timeouts.idle) } else { timeouts.idle };
        Some(self.busy_at + idle)
    }

    /// Handles expired deadlines. Ready if the connection must be dropped at once.
    #[cold]
    pub(super) fn handle_overdue(&mut self, now: Duration) -> Poll<()> {
        let timeouts = self.connected.service.config.timeouts;
        let times = self.wire.times();
        if times.stalled_since.is_some_and(|since| since + timeouts.write_stall <= now) {
            // Without this call, the kernel would keep trying to send the data.
            self.wire.discard_unsent();
            return Poll::Ready(());
        }
        match &self.phase {
            Phase::Begins(_) | Phase::Lingers { .. } => Poll::Ready(()),
            Phase::Open(_) => {
                let is_slow = times.section_since.is_some_and(|since| since + timeouts.header_section <= now);
                self.abort(if is_slow { Reason::ENHANCE_YOUR_CALM } else { Reason::NO_ERROR });
                Poll::Pending
            }
        }
    }
}

/// Maximum number of bytes that a client may still send while it reads the last data.
const LINGER_BYTES_MAX: usize = 16 << 20;
