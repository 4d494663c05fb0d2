//! The state of a connection. The state changes when data is sent, when data arrives, and when a timeout
//! expires.

use std::time::Duration;

use thruway_http1::{self as http1, BodyLength, ClientConnection};
use thruway_message::StatusCode;
use thruway_net::{PooledBuffer, Transport};

use super::output::Output;
use crate::timers::{Awaited, Timers};
use crate::{Error, Timeouts};

/// The state of a connection, with or without an active exchange.
pub(super) struct State<T> {
    pub(super) transport: T,
    pub(super) http1: ClientConnection,
    pub(super) exchanges: u64,
    /// `true` if any request on the connection had an `Upgrade` field. The client does not reuse such a
    /// connection, because some upstream servers do not continue normally after they decline an upgrade.
    pub(super) asked_for_upgrade: bool,
    /// Minimum length of an input buffer, because heads and trailer sections must be in one piece.
    pub(super) input_bytes: usize,

    // the outgoing request
    pub(super) sending: Sending,
    pub(super) output: Output,
    /// `true` if a byte of the request was written.
    pub(super) has_sent: bool,

    // the incoming response
    pub(super) phase: Phase,
    /// Received bytes that the caller had not consumed at the end of the last poll.
    pub(super) kept: PooledBuffer,
    /// Number of bytes in `kept` that have been parsed.
    pub(super) kept_parsed: usize,
    /// Number of body bytes that the caller has put back after an event. The next event returns these
    /// bytes again.
    pub(super) put_back: usize,
    pub(super) is_input_ended: bool,

    pub(super) timeouts: Timeouts,
    pub(super) timers: Timers,
}

/// The part of the request that is still to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sending {
    /// The remaining bytes of a body of known length.
    Bytes { remaining: u64 },
    /// The remaining part of a chunked body.
    Chunked,
    /// The caller has provided the whole request. The last bytes of the request may still wait in `output`.
    Complete,
    /// The client has stopped before the whole request was sent, because the upstream server does not want or
    /// cannot accept the unsent part.
    Stopped,
}

/// The part of the response that is still to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The final response.
    ExpectHead {
        /// `true` if any byte has arrived, including the bytes of an interim response.
        has_received: bool,
    },
    ExpectContent {
        /// `true` if the status is 400 or higher.
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
    /// Returns the error to report if the connection ends in the current state.
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
    /// Returns the state after the client has sent `sent` of the `remaining` bytes.
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

    /// Returns `true` if the client must still wait for `100 (Continue)` before it sends the body.
    pub(super) fn must_wait(&mut self, now: Duration) -> bool {
        let must_wait = self.timers.continue_until.is_some_and(|until| now < until);
        if !must_wait {
            self.timers.continue_until = None;
        }
        must_wait
    }
}

impl<T> State<T> {
    /// Records that bytes arrived. Bytes of the body restart the timeout for the body. Bytes of a head do
    /// not restart the timeout for the head, because the whole head must arrive within this timeout.
    #[inline]
    pub(super) fn note_received(&mut self) {
        match &mut self.phase {
            Phase::ExpectHead { has_received } => *has_received = true,
            Phase::ExpectContent { .. } | Phase::Complete | Phase::Tunnel => self.timers.waiting_since = None,
        }
    }

    pub(super) fn handle_interim(&mut self, status: StatusCode) {
        self.timers.waiting_since = None;
        if status == StatusCode::CONTINUE {
            self.timers.continue_until = None;
        }
    }

    /// Handles the head of the final response. If the status is not a success, stops sending, because the
    /// upstream server does not want the unsent part of the request. If the status is a success, the server
    /// may still want the rest of the request (RFC 9112 §9.5).
    #[inline]
    pub(super) fn handle_final(&mut self, status: StatusCode, body_length: BodyLength) {
        self.timers.waiting_since = None;
        self.timers.continue_until = None;
        self.phase = Phase::ExpectContent { is_refusal: status.as_u16() >= 400 };
        if body_length == BodyLength::NONE {
            self.handle_end();
        } else if !status.is_success() && !self.is_request_sent() {
            self.stop_sending();
        }
    }

    /// Returns `true` if a failure of the connection ends a body without a length, as a regular close does.
    /// An upstream server may refuse a request, and close the connection without reading the whole request.
    /// The close then resets the connection (RFC 9112 §9.6). The client should still get the error response,
    /// although its body may be incomplete.
    pub(super) fn may_end_by_reset(&self) -> bool {
        self.phase == Phase::ExpectContent { is_refusal: true }
    }

    /// Handles the end of the response. Stops sending, because the upstream server no longer needs the unsent
    /// part of the request.
    #[inline]
    pub(super) fn handle_end(&mut self) {
        self.phase = Phase::Complete;
        if !self.is_request_sent() {
            self.stop_sending();
        }
    }

    /// Handles a response that opens a tunnel. Returns an error if the request is incomplete (RFC 9110 §7.8),
    /// because the unsent bytes of the request would end up in the tunnel.
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
    /// Returns the time at which the first timeout expires, or `None` if no timeout is active.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.timers.deadline(self.awaited(), &self.timeouts)
    }

    /// Records that no data has arrived. Returns an error if a timeout has expired.
    #[inline]
    pub(super) fn wait_to_read(&mut self, now: Duration) -> Result<(), Error> {
        let awaited = self.awaited();
        let is_waiting =
            awaited == Awaited::Content || self.is_request_sent() || self.sending == Sending::Stopped;
        self.timers.wait_to_read(is_waiting, awaited, &self.timeouts, now)
    }

    /// Records that no data could be written. Returns an error if a timeout has expired.
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
