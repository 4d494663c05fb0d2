//! Connections and exchanges. The start of an exchange consumes a connection, and the end of the exchange
//! returns the connection.

use std::fmt;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use thruway_http1::{BodyLength, ClientConnection, ResponseTo};
use thruway_message::Method;
use thruway_net::{PooledBuffer, Transport};

use super::output::Output;
use super::response::{ReadBuffers, ResponsePoll, input_bytes};
use super::state::{Phase, Sending, State};
use crate::timers::Timers;
use crate::{Config, Error, Timeouts, UpstreamStream};

/// A connection without an active exchange. Dropping this value closes the connection.
pub struct Connection<T = UpstreamStream>(pub(super) Box<State<T>>);

/// A request and its response while they are in progress. Dropping this value closes the connection.
pub struct Exchange<T = UpstreamStream>(pub(super) Box<State<T>>);

/// The properties of a request that determine its framing and the framing of the response. The head of
/// the request must agree with these properties.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestToSend {
    /// The kind of the request: CONNECT, HEAD or another method.
    pub response_to: ResponseTo,
    /// The framing of the body, as the head announces it. [`BodyLength::UntilClose`] is invalid for
    /// requests, and the exchange treats it as chunked.
    pub body_length: BodyLength,
    /// `true` if the head has an `Upgrade` field. If `false`, the exchange rejects a 101 response.
    pub asks_for_upgrade: bool,
    /// `true` if the head has `Expect: 100-continue`, and the exchange must not send the body before the
    /// server responds. A gateway sets `false` if its client already waits for this response.
    pub awaits_continue: bool,
}

/// A connection that has become a tunnel, after status 101 or after a successful CONNECT.
#[derive(Debug)]
pub struct Tunnel<T = UpstreamStream> {
    /// The transport of the connection.
    pub transport: T,
    /// Bytes of the tunnel that the client has already received.
    pub early: PooledBuffer,
}

impl RequestToSend {
    /// Returns a request with `method` and `body_length`, without an upgrade and without `Expect`.
    pub fn new(method: Method<'_>, body_length: BodyLength) -> Self {
        Self { response_to: method.into(), body_length, asks_for_upgrade: false, awaits_continue: false }
    }
}

impl<T: Transport> Connection<T> {
    /// Creates an HTTP/1.1 connection on `transport`, which must be connected.
    pub fn new(transport: T, config: &Config) -> Self {
        Self(Box::new(State {
            transport,
            http1: ClientConnection::new(config.limits),
            exchanges: 0,
            asked_for_upgrade: false,
            input_bytes: input_bytes(&config.limits),
            sending: Sending::Complete,
            output: Output::default(),
            has_sent: false,
            phase: Phase::Complete,
            kept: PooledBuffer::default(),
            kept_parsed: 0,
            put_back: 0,
            is_input_ended: false,
            timeouts: config.timeouts,
            timers: Timers::default(),
        }))
    }

    /// Starts an exchange. `write_head` appends the head of the request to a buffer. A poll of the
    /// exchange writes the head together with the first bytes of the body.
    #[inline]
    pub fn start(
        self,
        request: RequestToSend,
        now: Duration,
        write_head: impl FnOnce(&mut Vec<u8>),
    ) -> Exchange<T> {
        let mut exchange = self.start_without_head(request, now);
        write_head(exchange.0.output.bytes());
        exchange
    }

    /// Starts an exchange without a head. The caller must pass the head to [`Exchange::send_head`] before any
    /// other call.
    #[inline]
    pub fn start_without_head(mut self, request: RequestToSend, now: Duration) -> Exchange<T> {
        let state = &mut *self.0;
        state.exchanges += 1;
        state.asked_for_upgrade |= request.asks_for_upgrade;
        state.http1.expect_response(request.response_to, request.asks_for_upgrade);
        state.has_sent = false;
        state.sending = match request.body_length {
            BodyLength::NONE => Sending::Complete,
            BodyLength::Bytes(remaining) => Sending::Bytes { remaining },
            BodyLength::Chunked | BodyLength::UntilClose => Sending::Chunked,
        };
        state.phase = Phase::ExpectHead { has_received: false };
        let awaits_continue = request.awaits_continue && state.sending != Sending::Complete;
        state.timers = Timers::new(now, awaits_continue.then(|| now + state.timeouts.expect_continue));
        Exchange(self.0)
    }

    /// Returns `true` if the connection seems to be open and no unexpected data has arrived. The upstream
    /// server may have closed the connection, but this machine may not know yet.
    pub fn is_alive(&mut self) -> bool {
        self.0.transport.has_no_input()
    }

    /// Returns the number of exchanges on the connection so far.
    pub const fn exchanges(&self) -> u64 {
        self.0.exchanges
    }
}

impl<T: Transport> Exchange<T> {
    /// Replaces the timeouts of this exchange and of later exchanges on the connection.
    pub const fn set_timeouts(&mut self, timeouts: Timeouts) {
        self.0.timeouts = timeouts;
    }

    /// Returns the timeouts of this exchange.
    pub const fn timeouts(&self) -> Timeouts {
        self.0.timeouts
    }

    /// Returns `true` if the connection had an earlier exchange. The methods of [`Retry`](crate::Retry) need
    /// this information.
    pub const fn is_reused(&self) -> bool {
        self.0.exchanges > 1
    }

    /// Returns `true` if the response is complete. If a part of the request is still unsent, the exchange
    /// never sends this part.
    pub fn is_complete(&self) -> bool {
        self.0.phase == Phase::Complete
    }

    /// Returns the time at which to poll again if nothing happens earlier, or `None` if no timeout is active.
    pub fn deadline(&self) -> Option<Duration> {
        self.0.deadline()
    }

    /// Begins a poll that reads the response. The poll uses `buffers` only until the poll ends, so all
    /// exchanges of a thread can share `buffers`.
    #[inline]
    pub fn begin_poll<'e>(&'e mut self, buffers: &'e ReadBuffers) -> ResponsePoll<'e, T> {
        ResponsePoll::new(&mut self.0, buffers)
    }

    /// Returns the transport of the connection.
    pub const fn transport(&self) -> &T {
        &self.0.transport
    }

    /// Returns the number of body bytes that can be [moved](Self::poll_move_content) directly from the
    /// transport. If the length of the body is known and none of the remaining bytes is buffered, these are
    /// all remaining bytes. In all other cases, the result is 0.
    pub fn movable_content(&self) -> u64 {
        let is_next = matches!(self.0.phase, Phase::ExpectContent { .. }) && self.0.kept.is_empty();
        if is_next { self.0.http1.content_remaining().unwrap_or(0) } else { 0 }
    }

    /// Calls `move_content` to take body bytes directly from the transport, for example with `splice`.
    /// The second argument of `move_content` is the number of [movable](Self::movable_content) bytes.
    /// `move_content` returns the number of bytes taken, or 0 at the end of the stream. A later poll
    /// reports the end of the body. Before the call, this function writes buffered bytes of the request,
    /// as a poll does.
    ///
    /// # Errors
    /// Returns an error if the connection has ended too early, or if a timeout has expired.
    pub fn poll_move_content(
        &mut self,
        cx: &mut Context<'_>,
        now: Duration,
        move_content: impl FnOnce(&mut T, u64, &mut Context<'_>) -> Poll<io::Result<u64>>,
    ) -> Poll<Result<u64, Error>> {
        let movable = self.movable_content();
        if movable == 0 {
            return Poll::Ready(Ok(0));
        }
        // The upstream server may wait for the unsent part of the request before it sends more.
        if let Poll::Ready(Err(error)) = self.0.poll_flush(cx, now) {
            return Poll::Ready(Err(error));
        }
        match move_content(&mut self.0.transport, movable, cx) {
            Poll::Pending => {
                self.0.wait_to_read(now)?;
                Poll::Pending
            }
            Poll::Ready(Ok(moved @ 1..)) => {
                self.0.http1.skip_content(moved);
                self.0.note_received();
                Poll::Ready(Ok(moved))
            }
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(Err(self.0.closed())),
        }
    }

    /// Ends the exchange. If another exchange can follow, returns the connection. Otherwise, closes the
    /// connection. Another exchange can follow if all of these conditions are true:
    /// - The request and the response are complete, and no data came after the response.
    /// - The upstream server keeps the connection open (RFC 9112 §9.3).
    /// - No request on the connection asked for an upgrade.
    #[inline]
    pub fn finish(self) -> Option<Connection<T>> {
        self.0.is_reusable().then(|| Connection(self.0))
    }

    /// Returns `true` if another exchange can follow on the connection: see [`finish`](Self::finish).
    pub fn is_reusable(&self) -> bool {
        self.0.is_reusable()
    }

    /// Returns `true` if both the request and the response are complete, and no further data came after the
    /// response.
    pub fn is_exact(&self) -> bool {
        self.is_complete() && self.0.is_request_sent() && self.0.kept.is_empty()
    }

    /// Returns the tunnel, or `None` if the response has not opened a
    /// [tunnel](super::ResponseEvent::Tunnel).
    pub fn into_tunnel(self) -> Option<Tunnel<T>> {
        let State { phase, transport, mut kept, kept_parsed, .. } = *self.0;
        kept.drain(..kept_parsed);
        (phase == Phase::Tunnel).then_some(Tunnel { transport, early: kept })
    }
}

impl<T> fmt::Debug for Connection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("exchanges", &self.0.exchanges).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Exchange<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { sending, phase, .. } = &*self.0;
        f.debug_struct("Exchange").field("sending", sending).field("phase", phase).finish_non_exhaustive()
    }
}
