//! The state of a connection, and what changes it: what was sent, what has come, what has taken too long.

use std::time::Duration;

use thruway_http1::{self as http1, BodyLength, ClientConnection};
use thruway_message::StatusCode;
use thruway_net::{PooledBuffer, Transport};

use super::output::Output;
use crate::timers::{Awaited, Timers};
use crate::{Error, Timeouts};

/// The state of a connection, idle or not.
pub(super) struct State<T> {
    pub(super) transport: T,
    pub(super) http1: ClientConnection,
    pub(super) exchanges: u64,
    /// Whether a request on it had an `Upgrade` field: not every upstream that declines goes on as if nothing
    /// had been asked.
    pub(super) asked_for_upgrade: bool,
    /// How long an input must be for what comes in one piece.
    pub(super) input_bytes: usize,

    // the request out
    pub(super) sending: Sending,
    pub(super) output: Output,
    /// Whether an octet of the request was written.
    pub(super) has_sent: bool,

    // the response in
    pub(super) phase: Phase,
    /// What has arrived and was not taken when the last turn ended.
    pub(super) kept: PooledBuffer,
    /// How much of that has been parsed.
    pub(super) kept_parsed: usize,
    /// How many of the octets that come next are content that was parsed, given and put back.
    pub(super) put_back: usize,
    pub(super) is_input_ended: bool,

    pub(super) timeouts: Timeouts,
    pub(super) timers: Timers,
}

/// What of the request is still to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sending {
    /// So many octets of content.
    Octets { remaining: u64 },
    /// Chunks.
    Chunked,
    /// Nothing: all of it was written, or waits in the output.
    Complete,
    /// Nothing, although it is not complete: the upstream does not want it, or cannot be written to.
    Stopped,
}

/// What of the response is still to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The final response.
    ExpectHead {
        /// Whether any octet has come, if only of an interim response.
        has_received: bool,
    },
    ExpectContent {
        /// Whether the status is an error.
        is_refusal: bool,
    },
    Complete,
    Tunnel,
}

impl<T> State<T> {
    pub(super) fn is_reusable(&self) -> bool {
        self.phase == Phase::Complete
            && self.is_request_sent()
            && self.http1.is_reusable()
            && !self.asked_for_upgrade
            && !self.is_input_ended
            && self.kept.is_empty()
    }

    /// Whether all of the request was written.
    #[inline]
    pub(super) fn is_request_sent(&self) -> bool {
        self.sending == Sending::Complete && self.output.is_empty()
    }
}

impl<T: Transport> State<T> {
    /// What it means that the connection has ended now.
    #[cold]
    pub(super) fn closed(&self) -> Error {
        match self.phase {
            Phase::ExpectHead { has_received: false } if !self.has_begun_to_send() => {
                Error::ClosedBeforeRequest
            }
            Phase::ExpectHead { has_received: false } => Error::ClosedBeforeResponse,
            Phase::ExpectHead { has_received: true } => Error::HeadIncomplete,
            Phase::ExpectContent { .. } | Phase::Complete | Phase::Tunnel => Error::ContentIncomplete,
        }
    }

    /// Whether an octet of the request may have left.
    pub(super) fn has_begun_to_send(&self) -> bool {
        self.has_sent || self.transport.has_written_part()
    }
}

impl Sending {
    /// What is to be sent when `sent` octets of `remaining` were.
    pub(super) const fn after(remaining: u64, sent: usize) -> Self {
        match remaining - sent as u64 {
            0 => Self::Complete,
            remaining => Self::Octets { remaining },
        }
    }
}

impl<T> State<T> {
    /// Sends nothing more.
    #[cold]
    pub(super) fn stop_sending(&mut self) {
        self.sending = Sending::Stopped;
        self.output.clear();
        self.timers.stalled_since = None;
        self.timers.continue_until = None;
    }

    /// Whether content must still wait for `100 (Continue)`.
    pub(super) fn must_wait(&mut self, now: Duration) -> bool {
        let must_wait = self.timers.continue_until.is_some_and(|until| now < until);
        if !must_wait {
            self.timers.continue_until = None;
        }
        must_wait
    }
}

impl<T> State<T> {
    /// Octets came: content has not stopped, but a head may still come too slowly.
    #[inline]
    pub(super) fn note_received(&mut self) {
        match &mut self.phase {
            Phase::ExpectHead { has_received } => *has_received = true,
            Phase::ExpectContent { .. } | Phase::Complete | Phase::Tunnel => self.timers.owed_since = None,
        }
    }

    pub(super) fn handle_interim(&mut self, status: StatusCode) {
        self.timers.owed_since = None;
        if status == StatusCode::CONTINUE {
            self.timers.continue_until = None;
        }
    }

    /// A response that is not a success comes from an upstream that does not want the rest of the request;
    /// whoever succeeds may still be reading it (RFC 9112 §9.5).
    #[inline]
    pub(super) fn handle_final(&mut self, status: StatusCode, body_length: BodyLength) {
        self.timers.owed_since = None;
        self.timers.continue_until = None;
        self.phase = Phase::ExpectContent { is_refusal: status.as_u16() >= 400 };
        if body_length == BodyLength::NONE {
            self.handle_end();
        } else if !status.is_success() && !self.is_request_sent() {
            self.stop_sending();
        }
    }

    /// Whether a connection that fails now has ended as if the upstream had closed it, which is the end of
    /// content without a length. An upstream that refuses a request and closes with octets of it unread
    /// resets the connection by that (RFC 9112 §9.6): its refusal is worth more to the client than the doubt
    /// whether the explanation is complete.
    pub(super) fn may_end_by_reset(&self) -> bool {
        self.phase == Phase::ExpectContent { is_refusal: true }
    }

    /// The response is complete: there is nothing to send the rest of the request for.
    #[inline]
    pub(super) fn handle_end(&mut self) {
        self.phase = Phase::Complete;
        if !self.is_request_sent() {
            self.stop_sending();
        }
    }

    /// Only the request as a whole can be answered by a tunnel (RFC 9110 §7.8): what is still to be sent
    /// would end up in it.
    pub(super) fn handle_tunnel(&mut self) -> Result<(), Error> {
        if !self.is_request_sent() {
            return Err(Error::HeadMalformed(http1::Error::UnexpectedMessage));
        }
        self.phase = Phase::Tunnel;
        Ok(())
    }

    #[cold]
    pub(super) fn malformed(&self, rule: http1::Error) -> Error {
        match self.phase {
            Phase::ExpectHead { .. } => Error::HeadMalformed(rule),
            Phase::ExpectContent { .. } | Phase::Complete | Phase::Tunnel => Error::ContentMalformed(rule),
        }
    }
}

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
