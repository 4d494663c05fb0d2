//! How long an exchange waits for its upstream: as one of HTTP/1.1 does.

use std::time::Duration;

use super::exchange::{Exchange, Phase};
use crate::Error;

/// Since when an exchange waits for what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timers {
    started: Duration,
    /// Since when nothing of the request is taken.
    pub(super) stalled_since: Option<Duration>,
    /// Since when the upstream owes the head, or the next octet of the content.
    pub(super) owed_since: Option<Duration>,
}

impl Timers {
    pub(super) const fn new(now: Duration) -> Self {
        Self { started: now, stalled_since: None, owed_since: None }
    }
}

impl Exchange {
    /// When to poll again although nothing has happened.
    pub fn deadline(&self) -> Option<Duration> {
        if self.phase == Phase::Complete {
            return None;
        }
        [self.total_deadline(), self.write_deadline(), self.read_deadline()].into_iter().flatten().min()
    }

    /// Nothing came. Takes note of it if the upstream is to send something, and fails if it has had its time.
    pub(super) fn wait_to_read(&mut self, now: Duration) -> Result<(), Error> {
        if self.phase == Phase::ExpectContent || self.is_request_sent() {
            self.timers.owed_since.get_or_insert(now);
        }
        self.check_timers(now)
    }

    /// Nothing could be sent. Takes note of it, and fails if the upstream has had its time.
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
            Phase::ExpectHead => Err(Error::HeadTimedOut),
            Phase::ExpectContent | Phase::Complete => Err(Error::ContentTimedOut),
        }
    }

    fn total_deadline(&self) -> Option<Duration> {
        Some(self.timers.started.saturating_add(self.config.timeouts.total?))
    }

    /// An upstream that answers need not take the rest of the request.
    fn write_deadline(&self) -> Option<Duration> {
        let stalled = self.timers.stalled_since.filter(|_| self.phase == Phase::ExpectHead);
        Some(stalled?.saturating_add(self.config.timeouts.write_stall))
    }

    fn read_deadline(&self) -> Option<Duration> {
        let timeout = match self.phase {
            Phase::ExpectHead => self.config.timeouts.head,
            Phase::ExpectContent => self.config.timeouts.content_idle,
            Phase::Complete => return None,
        };
        Some(self.timers.owed_since?.saturating_add(timeout))
    }
}
