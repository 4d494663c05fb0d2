//! Connections, and the exchanges that they become and that become them again.

use std::fmt;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use thruway_http1::{BodyLength, ClientConnection, ResponseTo};
use thruway_message::Method;
use thruway_net::{PooledBuffer, Transport};

use super::output::Output;
use super::response::{ReadBuffers, Turn, input_bytes};
use super::state::{Phase, Sending, State};
use crate::timers::Timers;
use crate::{Config, Error, Timeouts, UpstreamStream};

/// A connection on which no exchange is going on. Dropping it closes it.
pub struct Connection<T = UpstreamStream>(pub(super) Box<State<T>>);

/// A request and its response, while they are exchanged. Dropping it closes the connection.
pub struct Exchange<T = UpstreamStream>(pub(super) Box<State<T>>);

/// What decides how a request is framed and how its response is read. The octets of the head must say the
/// same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestToSend {
    /// What kind of request it is.
    pub response_to: ResponseTo,
    /// The body that the head announces; [`BodyLength::UntilClose`] is not for requests and is taken for
    /// chunked.
    pub body_length: BodyLength,
    /// Whether the head has an `Upgrade` field. Without it, 101 is refused.
    pub asks_for_upgrade: bool,
    /// Whether the head says `Expect: 100-continue`, and the content is to wait for the answer. A gateway
    /// whose client waits itself says no.
    pub awaits_continue: bool,
}

/// What a connection is after 101, or a success of CONNECT.
#[derive(Debug)]
pub struct Tunnel<T = UpstreamStream> {
    /// The connection.
    pub transport: T,
    /// What the upstream has sent behind its response.
    pub early: PooledBuffer,
}

impl RequestToSend {
    /// A request of `method` with this body.
    pub fn new(method: Method<'_>, body_length: BodyLength) -> Self {
        Self { response_to: method.into(), body_length, asks_for_upgrade: false, awaits_continue: false }
    }
}

impl<T: Transport> Connection<T> {
    /// A fresh connection over `transport`, which is connected.
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

    /// Begins an exchange. `write_head` appends the octets of the request's head, which are written together
    /// with the first content when the exchange is polled.
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
            BodyLength::Octets(remaining) => Sending::Octets { remaining },
            BodyLength::Chunked | BodyLength::UntilClose => Sending::Chunked,
        };
        state.phase = Phase::ExpectHead { has_received: false };
        let awaits_continue = request.awaits_continue && state.sending != Sending::Complete;
        state.timers = Timers::new(now, awaits_continue.then(|| now + state.timeouts.expect_continue));
        write_head(state.output.octets());
        Exchange(self.0)
    }

    /// Whether the upstream has neither closed the connection nor sent anything that nobody asked for, as far
    /// as this machine knows: the upstream may have closed it just now.
    pub fn is_alive(&mut self) -> bool {
        self.0.transport.is_quiet()
    }

    /// How many exchanges there were on it.
    pub const fn exchanges(&self) -> u64 {
        self.0.exchanges
    }
}

impl<T: Transport> Exchange<T> {
    /// Waits for other times than the config says, in this exchange and those after it on the connection.
    pub const fn set_timeouts(&mut self, timeouts: Timeouts) {
        self.0.timeouts = timeouts;
    }

    /// How long it waits for what.
    pub const fn timeouts(&self) -> Timeouts {
        self.0.timeouts
    }

    /// Whether the connection was used before: what [`Retry`](crate::Retry) asks.
    pub const fn is_reused(&self) -> bool {
        self.0.exchanges > 1
    }

    /// Whether the response is complete. What of the request was not sent then will not be.
    pub fn is_complete(&self) -> bool {
        self.0.phase == Phase::Complete
    }

    /// When to poll again although nothing has happened.
    pub fn deadline(&self) -> Option<Duration> {
        self.0.deadline()
    }

    /// Begins to read. Turns are short: all exchanges of a thread can share `buffers`, which are free again
    /// after the turn.
    #[inline]
    pub fn turn<'e>(&'e mut self, buffers: &'e ReadBuffers) -> Turn<'e, T> {
        Turn::new(&mut self.0, buffers)
    }

    /// What it is exchanged on.
    pub const fn transport(&self) -> &T {
        &self.0.transport
    }

    /// How many octets of content come next on the connection and nothing else: all that is left of content
    /// of a known length, if none of it has been read already. Those can be [moved](Self::poll_move_content).
    pub fn movable_content(&self) -> u64 {
        let is_next = matches!(self.0.phase, Phase::ExpectContent { .. }) && self.0.kept.is_empty();
        if is_next { self.0.http1.content_remaining().unwrap_or(0) } else { 0 }
    }

    /// Lets `move_content` take content from the transport without it passing through here, as `splice` does:
    /// as much as it likes of the octets that are [movable](Self::movable_content), which are its second
    /// argument. It returns how many it took, and 0 at the end of what the upstream sends. That the content
    /// is complete is said in a turn. Writes what waits of the request before, as a turn does.
    ///
    /// # Errors
    /// The connection has ended too early, or a deadline has passed.
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
        // The upstream may wait for the rest of the request before it sends more.
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

    /// Ends the exchange. Returns the connection if another may follow on it: both messages are complete,
    /// nothing came behind the response, the upstream lets the connection go on (RFC 9112 §9.3), and it was
    /// not asked to change to another protocol. Otherwise it is closed.
    #[inline]
    pub fn finish(self) -> Option<Connection<T>> {
        self.0.is_reusable().then(|| Connection(self.0))
    }

    /// Takes the connection out of HTTP; `None` unless the response was a [tunnel](ResponseEvent::Tunnel).
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
