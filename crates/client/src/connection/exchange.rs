//! Connections and exchanges. Starting an exchange consumes a connection; finishing it returns the
//! connection.

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

/// A connection without an active exchange. Dropping it closes it.
pub struct Connection<T = UpstreamStream>(pub(super) Box<State<T>>);

/// A request and its response while they are in progress. Dropping it closes the connection.
pub struct Exchange<T = UpstreamStream>(pub(super) Box<State<T>>);

/// The properties that determine the framing of a request and of its response. The head of the request must
/// agree with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestToSend {
    /// The kind of the request.
    pub response_to: ResponseTo,
    /// The body that the head announces. [`BodyLength::UntilClose`] is invalid for requests and is treated as
    /// chunked.
    pub body_length: BodyLength,
    /// `true` if the head has an `Upgrade` field. Otherwise, a 101 response is rejected.
    pub asks_for_upgrade: bool,
    /// `true` if the head has `Expect: 100-continue` and the body must wait for the answer. A gateway sets
    /// `false` if its own client waits.
    pub awaits_continue: bool,
}

/// A connection after status 101, or after a successful CONNECT.
#[derive(Debug)]
pub struct Tunnel<T = UpstreamStream> {
    /// The connection.
    pub transport: T,
    /// Bytes that the upstream server sent after its response.
    pub early: PooledBuffer,
}

impl RequestToSend {
    /// Returns a request of `method` with this body.
    pub fn new(method: Method<'_>, body_length: BodyLength) -> Self {
        Self { response_to: method.into(), body_length, asks_for_upgrade: false, awaits_continue: false }
    }
}

impl<T: Transport> Connection<T> {
    /// Returns a new connection over `transport`, which is connected.
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

    /// Starts an exchange. `write_head` appends the head of the request. The head is written together with
    /// the first bytes of the body when the exchange is polled.
    #[inline]
    pub fn start(
        mut self,
        request: RequestToSend,
        now: Duration,
        write_head: impl FnOnce(&mut Vec<u8>),
    ) -> Exchange<T> {
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
        write_head(state.output.bytes());
        Exchange(self.0)
    }

    /// Returns `true` if the connection is open and no unexpected data has arrived, as far as this machine
    /// knows. The upstream server may still have closed it a moment ago.
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

    /// Returns the timeouts.
    pub const fn timeouts(&self) -> Timeouts {
        self.0.timeouts
    }

    /// Returns `true` if the connection was used before, which matters for [`Retry`](crate::Retry).
    pub const fn is_reused(&self) -> bool {
        self.0.exchanges > 1
    }

    /// Returns `true` if the response is complete. The unsent rest of the request is then never sent.
    pub fn is_complete(&self) -> bool {
        self.0.phase == Phase::Complete
    }

    /// Returns the time at which to poll again if no event has happened.
    pub fn deadline(&self) -> Option<Duration> {
        self.0.deadline()
    }

    /// Begins a poll: one iteration that reads. Polls are short, so all exchanges of a thread can share
    /// `buffers`, which are free again after the poll.
    #[inline]
    pub fn begin_poll<'e>(&'e mut self, buffers: &'e ReadBuffers) -> ResponsePoll<'e, T> {
        ResponsePoll::new(&mut self.0, buffers)
    }

    /// Returns the transport of the connection.
    pub const fn transport(&self) -> &T {
        &self.0.transport
    }

    /// Returns the number of body bytes that come next on the connection: the rest of a body of known length,
    /// if no byte of it is already buffered. These bytes can be [moved](Self::poll_move_content).
    pub fn movable_content(&self) -> u64 {
        let is_next = matches!(self.0.phase, Phase::ExpectContent { .. }) && self.0.kept.is_empty();
        if is_next { self.0.http1.content_remaining().unwrap_or(0) } else { 0 }
    }

    /// Lets `move_content` take body bytes directly from the transport, for example with `splice`. Its second
    /// argument is the number of [movable](Self::movable_content) bytes. It returns the number of bytes
    /// taken, or 0 at the end of the stream. A later poll reports the end of the body. Waiting bytes of the
    /// request are written first, as in a poll.
    ///
    /// # Errors
    /// The connection has ended too early, or a timeout has expired.
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
        // The upstream server may wait for the rest of the request before it sends more.
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

    /// Ends the exchange. Returns the connection if another exchange can follow: both messages are complete,
    /// no data came after the response, the upstream server keeps the connection open (RFC 9112 §9.3), and no
    /// request asked for an upgrade. Otherwise, the connection is closed.
    #[inline]
    pub fn finish(self) -> Option<Connection<T>> {
        self.0.is_reusable().then(|| Connection(self.0))
    }

    /// Returns the tunnel. Returns `None` unless the response was a [tunnel](super::ResponseEvent::Tunnel).
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
