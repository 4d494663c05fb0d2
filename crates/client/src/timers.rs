//! How long an exchange waits for its upstream, whatever version of HTTP is spoken.
//!
//! Nothing is registered anywhere: what runs out is seen when the exchange is polled, and whoever polls it
//! asks for the deadline.

use std::time::Duration;

use crate::{Error, Timeouts};

/// Since when, or until when, an exchange waits for what.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Timers {
    started: Duration,
    /// When to send the content although nobody said `100 (Continue)`.
    pub(crate) continue_until: Option<Duration>,
    /// Since when nothing of the request is taken.
    pub(crate) stalled_since: Option<Duration>,
    /// Since when the upstream owes the head, or the next octet of the content.
    pub(crate) owed_since: Option<Duration>,
}

/// What is still to come of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaited {
    Head,
    Content,
    Nothing,
}

impl Timers {
    #[inline]
    pub(crate) const fn new(now: Duration, continue_until: Option<Duration>) -> Self {
        Self { started: now, continue_until, stalled_since: None, owed_since: None }
    }

    /// Nothing came. Takes note of it if something `is_owed`, and fails if the upstream has had its time.
    #[inline]
    pub(crate) fn wait_to_read(
        &mut self,
        is_owed: bool,
        awaited: Awaited,
        timeouts: &Timeouts,
        now: Duration,
    ) -> Result<(), Error> {
        if is_owed && self.owed_since.is_none() {
            self.owed_since = Some(now);
        }
        self.check(awaited, timeouts, now)
    }

    /// Nothing could be written. Takes note of it, and fails if the upstream has had its time.
    pub(crate) fn wait_to_write(
        &mut self,
        awaited: Awaited,
        timeouts: &Timeouts,
        now: Duration,
    ) -> Result<(), Error> {
        self.stalled_since.get_or_insert(now);
        self.check(awaited, timeouts, now)
    }

    fn check(&self, awaited: Awaited, timeouts: &Timeouts, now: Duration) -> Result<(), Error> {
        let is_over = |deadline: Option<Duration>| deadline.is_some_and(|at| at <= now);
        if is_over(self.total_deadline(timeouts)) {
            return Err(Error::TimedOut);
        }
        if is_over(self.write_deadline(awaited, timeouts)) {
            return Err(Error::WriteTimedOut);
        }
        match awaited {
            _ if !is_over(self.read_deadline(awaited, timeouts)) => Ok(()),
            Awaited::Head => Err(Error::HeadTimedOut),
            Awaited::Content | Awaited::Nothing => Err(Error::ContentTimedOut),
        }
    }

    /// When the first of them runs out.
    pub(crate) fn deadline(&self, awaited: Awaited, timeouts: &Timeouts) -> Option<Duration> {
        if awaited == Awaited::Nothing {
            return None;
        }
        let (write, read) = (self.write_deadline(awaited, timeouts), self.read_deadline(awaited, timeouts));
        [self.total_deadline(timeouts), write, read, self.continue_until].into_iter().flatten().min()
    }

    fn total_deadline(&self, timeouts: &Timeouts) -> Option<Duration> {
        Some(self.started.saturating_add(timeouts.total?))
    }

    /// An upstream that answers need not take the rest of the request: then the content it owes is waited
    /// for.
    fn write_deadline(&self, awaited: Awaited, timeouts: &Timeouts) -> Option<Duration> {
        let stalled = self.stalled_since.filter(|_| awaited == Awaited::Head);
        Some(stalled?.saturating_add(timeouts.write_stall))
    }

    fn read_deadline(&self, awaited: Awaited, timeouts: &Timeouts) -> Option<Duration> {
        let timeout = match awaited {
            Awaited::Head => timeouts.head,
            Awaited::Content => timeouts.content_idle,
            Awaited::Nothing => return None,
        };
        Some(self.owed_since?.saturating_add(timeout))
    }
}
