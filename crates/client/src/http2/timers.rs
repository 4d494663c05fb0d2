//! How long an exchange waits for its upstream: as one of HTTP/1.1 does.

use std::time::Duration;

use super::exchange::{Exchange, Phase};
use crate::Error;
use crate::timers::Awaited;

impl Exchange {
    /// When to poll again although nothing has happened.
    pub fn deadline(&self) -> Option<Duration> {
        self.timers.deadline(self.awaited(), &self.config.timeouts)
    }

    /// Nothing came. Takes note of it if the upstream is to send something, and fails if it has had its time.
    pub(super) fn wait_to_read(&mut self, now: Duration) -> Result<(), Error> {
        let awaited = self.awaited();
        let is_owed = awaited == Awaited::Content || self.is_request_sent();
        self.timers.wait_to_read(is_owed, awaited, &self.config.timeouts, now)
    }

    /// Nothing could be sent. Takes note of it, and fails if the upstream has had its time.
    pub(super) fn wait_to_write(&mut self, now: Duration) -> Result<(), Error> {
        self.timers.wait_to_write(self.awaited(), &self.config.timeouts, now)
    }

    const fn awaited(&self) -> Awaited {
        match self.phase {
            Phase::ExpectHead => Awaited::Head,
            Phase::ExpectContent => Awaited::Content,
            Phase::Complete | Phase::Tunnel => Awaited::Nothing,
        }
    }
}
