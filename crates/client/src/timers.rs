//! The timeouts of an exchange with its upstream server, for all versions of HTTP.
//!
//! This module registers no timers. A poll of the exchange detects an expired timeout. The caller asks
//! for the deadline of the exchange, and polls again at that time.

use std::time::Duration;

use crate::{Error, Timeouts};

/// The times at which an exchange began to wait, and at which its waits end.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Timers {
    started: Duration,
    /// Time at which to send the body even without `100 (Continue)`.
    pub(crate) continue_until: Option<Duration>,
    /// Time at which the upstream server stopped accepting bytes of the request.
    pub(crate) stalled_since: Option<Duration>,
    /// Time at which the client began to wait for the response head, or for the next byte of the body.
    pub(crate) waiting_since: Option<Duration>,
}

/// The part of a response that the client waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaited {
    Head,
    Content,
    Nothing,
}

/// Returns the earlier of two times.
#[inline]
fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl Timers {
    #[inline]
    pub(crate) const fn new(now: Duration, continue_until: Option<Duration>) -> Self {
        Self { started: now, continue_until, stalled_since: None, waiting_since: None }
    }

    /// Records that no data has arrived. `is_waiting` is `true` if the client waits for data from the
    /// upstream server. Returns an error if a timeout has expired.
    #[inline]
    pub(crate) fn wait_to_read(
        &mut self,
        is_waiting: bool,
        awaited: Awaited,
        timeouts: &Timeouts,
        now: Duration,
    ) -> Result<(), Error> {
        if is_waiting && self.waiting_since.is_none() {
            self.waiting_since = Some(now);
        }
        self.check(awaited, timeouts, now)
    }

    /// Records that no data could be written. Returns an error if a timeout has expired.
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

    /// Returns the time at which the first timeout expires, or `None` if no timeout is active.
    pub(crate) fn deadline(&self, awaited: Awaited, timeouts: &Timeouts) -> Option<Duration> {
        if awaited == Awaited::Nothing {
            return None;
        }
        let others =
            [self.total_deadline(timeouts), self.write_deadline(awaited, timeouts), self.continue_until];
        others.into_iter().fold(self.read_deadline(awaited, timeouts), earlier)
    }

    fn total_deadline(&self, timeouts: &Timeouts) -> Option<Duration> {
        Some(self.started.saturating_add(timeouts.total?))
    }

    /// Returns the time at which the write timeout expires. The timeout applies only until the final response
    /// starts. After the start of the final response, the upstream server need not accept the remaining part
    /// of the request. The timeout of the response body applies instead.
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
        Some(self.waiting_since?.saturating_add(timeout))
    }
}
