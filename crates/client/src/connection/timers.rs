//! How long an exchange waits for its upstream.

use std::time::Duration;

use super::{Phase, Sending, State};
use crate::Error;
use crate::timers::Awaited;

impl<T> State<T> {
    /// When the first of the timers runs out.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.timers.deadline(self.awaited(), &self.timeouts)
    }

    /// Nothing came. Takes note of it if the upstream is to send something, and fails if it has had its time.
    #[inline]
    pub(super) fn wait_to_read(&mut self, now: Duration) -> Result<(), Error> {
        let awaited = self.awaited();
        let is_owed =
            awaited == Awaited::Content || self.is_request_sent() || self.sending == Sending::Stopped;
        self.timers.wait_to_read(is_owed, awaited, &self.timeouts, now)
    }

    /// Nothing could be written. Takes note of it, and fails if the upstream has had its time.
    pub(super) fn wait_to_write(&mut self, now: Duration) -> Result<(), Error> {
        self.timers.wait_to_write(self.awaited(), &self.timeouts, now)
    }

    const fn awaited(&self) -> Awaited {
        match self.phase {
            Phase::ExpectHead { .. } => Awaited::Head,
            Phase::ExpectContent { .. } => Awaited::Content,
            Phase::Complete | Phase::Tunnel => Awaited::Nothing,
        }
    }
}
