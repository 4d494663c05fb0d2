//! How long an exchange waits for its upstream.
//!
//! Nothing is registered anywhere: what runs out is seen when the exchange is polled, and whoever polls it asks for the
//! deadline.

use std::time::Duration;

use super::{Phase, Sending, State};
use crate::Error;

/// Since when, or until when, an exchange waits for what.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Timers {
    started: Duration,
    /// When to send the content although nobody said `100 (Continue)`.
    pub(super) continue_until: Option<Duration>,
    /// Since when no octet could be written.
    pub(super) stalled_since: Option<Duration>,
    /// Since when the upstream owes the head, or the next octet of the content.
    pub(super) owed_since: Option<Duration>,
}

impl Timers {
    #[inline]
    pub(super) const fn new(now: Duration, continue_until: Option<Duration>) -> Self {
        Self { started: now, continue_until, stalled_since: None, owed_since: None }
    }
}

impl<T> State<T> {
    /// When the first of the timers runs out.
    pub(super) fn deadline(&self) -> Option<Duration> {
        if matches!(self.phase, Phase::Complete | Phase::Tunnel) {
            return None;
        }
        [self.total_deadline(), self.write_deadline(), self.read_deadline(), self.timers.continue_until]
            .into_iter()
            .flatten()
            .min()
    }

    /// Nothing came. Takes note of it if the upstream is to send something, and fails if it has had its time.
    #[inline]
    pub(super) fn wait_to_read(&mut self, now: Duration) -> Result<(), Error> {
        if self.timers.owed_since.is_none()
            && (matches!(self.phase, Phase::ExpectContent { .. })
                || self.is_request_sent()
                || self.sending == Sending::Stopped)
        {
            self.timers.owed_since = Some(now);
        }
        self.check_timers(now)
    }

    /// Nothing could be written. Takes note of it, and fails if the upstream has had its time.
    pub(super) fn wait_to_write(&mut self, now: Duration) -> Result<(), Error> {
        self.timers.stalled_since.get_or_insert(now);
        self.check_timers(now)
    }

    fn check_timers(&self, now: Duration) -> Result<(), Error> {
        let is_over = |deadline: Option<Duration>| deadline.is_some_and(|at| at <= now);
        if is_over(self.total_deadline()) {
            return Err(Error::TimedOut);
        }
        if is_over(self.write_deadline()) {
            return Err(Error::WriteTimedOut);
        }
        match self.phase {
            _ if !is_over(self.read_deadline()) => Ok(()),
            Phase::ExpectHead { .. } => Err(Error::HeadTimedOut),
            Phase::ExpectContent { .. } | Phase::Complete | Phase::Tunnel => Err(Error::ContentTimedOut),
        }
    }

    fn total_deadline(&self) -> Option<Duration> {
        Some(self.timers.started.saturating_add(self.timeouts.total?))
    }

    /// An upstream that answers need not take the rest of the request: then the content it owes is waited for.
    fn write_deadline(&self) -> Option<Duration> {
        if !matches!(self.phase, Phase::ExpectHead { .. }) {
            return None;
        }
        Some(self.timers.stalled_since?.saturating_add(self.timeouts.write_stall))
    }

    fn read_deadline(&self) -> Option<Duration> {
        let timeout = match self.phase {
            Phase::ExpectHead { .. } => self.timeouts.head,
            Phase::ExpectContent { .. } => self.timeouts.content_idle,
            Phase::Complete | Phase::Tunnel => return None,
        };
        Some(self.timers.owed_since?.saturating_add(timeout))
    }
}
