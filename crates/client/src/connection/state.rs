//! The state of a connection, and its changes by sent data, received data and timeouts.

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
    /// `true` if a request on the connection had an `Upgrade` field. Some upstream servers that decline an
    /// upgrade do not continue normally.
    pub(super) asked_for_upgrade: bool,
    /// Minimum length of an input buffer for elements that must arrive in one piece.
    pub(super) input_bytes: usize,

    // the outgoing request
    pub(super) sending: Sending,
    pub(super) output: Output,
    /// `true` if a byte of the request was written.
    pub(super) has_sent: bool,

    // the incoming response
    pub(super) phase: Phase,
    /// Received bytes that were not consumed when the last poll ended.
    pub(super) kept: PooledBuffer,
    /// Number of these bytes that have been parsed.
    pub(super) kept_parsed: usize,
    /// Number of next bytes that are body bytes which were parsed, returned to the caller and put back.
    pub(super) put_back: usize,
    pub(super) is_input_ended: bool,

    pub(super) timeouts: Timeouts,
    pub(super) timers: Timers,
}

/// The part of the request that is still to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sending {
    /// This number of body bytes.
    Bytes { remaining: u64 },
    /// Chunks.
    Chunked,
    /// Nothing is left: the whole request was written, or waits in the output.
    Complete,
    /// The request is incomplete, but the upstream server does not want the rest or cannot take it.
    Stopped,
}

/// The part of the response that is still to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The final response.
    ExpectHead {
        /// `true` if any byte has arrived, including those of an interim response.
        has_received: bool,
    },
    ExpectContent {
        /// `true` if the status is an error.
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

    /// Returns `true` if the whole request was written.
    #[inline]
    pub(super) fn is_request_sent(&self) -> bool {
        self.sending == Sending::Complete && self.output.is_empty()
    }
}

impl<T: Transport> State<T> {
    /// Returns the error for a connection that ends now.
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

    /// Returns `true` if a byte of the request may have been sent.
    pub(super) fn has_begun_to_send(&self) -> bool {
        self.has_sent || self.transport.has_written_part()
    }
}

impl Sending {
    /// Returns the state after `sent` of `remaining` bytes were sent.
    pub(super) const fn after(remaining: u64, sent: usize) -> Self {
        match remaining - sent as u64 {
            0 => Self::Complete,
            remaining => Self::Bytes { remaining },
        }
    }
}

impl<T> State<T> {
    /// Stops sending the request.
    #[cold]
    pub(super) fn stop_sending(&mut self) {
        self.sending = Sending::Stopped;
        self.output.clear();
        self.timers.stalled_since = None;
        self.timers.continue_until = None;
    }

    /// Returns `true` if the body must still wait for `100 (Continue)`.
    pub(super) fn must_wait(&mut self, now: Duration) -> bool {
        let must_wait = self.timers.continue_until.is_some_and(|until| now < until);
        if !must_wait {
            self.timers.continue_until = None;
        }
        must_wait
    }
}

impl<T> State<T> {
    /// Records that bytes arrived. The body is making progress then, but a head may still arrive too slowly.
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

    /// Handles the final response. With a status other than success, the upstream server does not want the
    /// rest of the request. After a success, it may still read the rest (RFC 9112 §9.5).
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

    /// Returns `true` if a failure of the connection counts as a regular close, which ends a body without a
    /// length. An upstream server that refuses a request and closes with unread bytes resets the connection
    /// (RFC 9112 §9.6). The client should get the refusal, even if its body may be incomplete.
    pub(super) fn may_end_by_reset(&self) -> bool {
        self.phase == Phase::ExpectContent { is_refusal: true }
    }

    /// Handles the end of the response. The rest of the request is then useless.
    #[inline]
    pub(super) fn handle_end(&mut self) {
        self.phase = Phase::Complete;
        if !self.is_request_sent() {
            self.stop_sending();
        }
    }

    /// Handles a tunnel response. Only a complete request can become a tunnel (RFC 9110 §7.8): unsent parts
    /// of it would end up in the tunnel.
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
    /// Returns the time at which the first timeout expires.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.timers.deadline(self.awaited(), &self.timeouts)
    }

    /// Records that no data has arrived, if the upstream server must send some. Fails if its timeout has
    /// expired.
    #[inline]
    pub(super) fn wait_to_read(&mut self, now: Duration) -> Result<(), Error> {
        let awaited = self.awaited();
        let is_owed =
            awaited == Awaited::Content || self.is_request_sent() || self.sending == Sending::Stopped;
        self.timers.wait_to_read(is_owed, awaited, &self.timeouts, now)
    }

    /// Records that no data could be written. Fails if the upstream server's timeout has expired.
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
