//! One connection, which has room for many exchanges.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Ping, PingPong};
use http::uri::Scheme;
use thruway_http1::BodyLength;
use thruway_net::{Clock, Deadline, Deadlines, Transport};

use super::exchange::{Exchange, Parts, Sending};
use super::head::Spoken;
use super::octets::Octets;
use super::state::{Counted, State};
use crate::{Config, Error, RequestToSend};

/// How connections of HTTP/2 are kept. How large responses may be, and how long they may take, says
/// [`Config`], as for HTTP/1.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Http2Config {
    /// Octets of content that an upstream may send on one stream before they are taken. Default 256 KiB;
    /// larger is faster over long distances. The window of the connection is as large as those of a hundred
    /// streams, and no more are begun on it, however many the upstream allows: otherwise exchanges whose
    /// content nobody takes would keep that of others away.
    pub stream_window_bytes: u32,
    /// After how long without a word the upstream is asked whether it is still there, while it owes
    /// something. Default 10 s. Twice: as long as it answers that and nothing else, it is asked once in five
    /// minutes, because servers end connections on which they are asked more often.
    pub ping_after: Duration,
    /// How long it may take to say so; then the connection is dead, and so are its exchanges. Default 10 s.
    pub ping_timeout: Duration,
    /// How long a connection without exchanges is kept. Default 30 s.
    pub idle: Duration,
}

impl Default for Http2Config {
    fn default() -> Self {
        Self {
            stream_window_bytes: 256 << 10,
            ping_after: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(10),
            idle: Duration::from_secs(30),
        }
    }
}

impl Http2Config {
    fn connection_window_bytes(&self) -> u32 {
        self.stream_window_bytes.saturating_mul(STREAMS).min(WINDOW_BYTES_MAX)
    }

    /// How many windows of streams are in that of the connection.
    fn exchanges_max(&self) -> usize {
        (self.connection_window_bytes() / self.stream_window_bytes.max(1)).max(1) as usize
    }
}

/// A connection to an upstream. Clones are of the same one; it is closed when none is left, and no exchange.
#[derive(Clone)]
pub struct Connection {
    send: SendRequest<Bytes>,
    state: Rc<State>,
    config: Config,
    scheme: Scheme,
    /// How many exchanges it has room for at a time, if the upstream has: each has its window in that of the
    /// connection.
    exchanges_max: usize,
}

/// Moves the octets of a connection until that has ended. To be run beside the exchanges, on the same thread.
pub struct Driver(Pin<Box<dyn Future<Output = ()>>>);

impl Connection {
    /// A connection over `transport`, of which nobody has read or written anything, and what drives it. The
    /// driver reads the time of `clock`, and has `deadlines`, if there are any, wake it.
    ///
    /// # Errors
    /// The transport has failed.
    pub async fn new<T: Transport>(
        transport: T,
        config: &Config,
        http2: &Http2Config,
        clock: &Clock,
        deadlines: Option<&Deadlines>,
    ) -> Result<(Self, Driver), Error> {
        let scheme = if transport.is_secured() { Scheme::HTTPS } else { Scheme::HTTP };
        let state = Rc::new(State::default());
        let octets = Octets::new(transport, state.heard.clone());
        let list_bytes = config.limits.header_section_bytes.saturating_add(config.limits.field_lines * 32);
        let handshake = h2::client::Builder::new()
            .enable_push(false)
            .initial_window_size(http2.stream_window_bytes)
            .initial_connection_window_size(http2.connection_window_bytes())
            .max_header_list_size(list_bytes)
            .max_send_buffer_size(SEND_BUFFER_BYTES)
            .max_concurrent_reset_streams(RESETS_REMEMBERED)
            .max_local_error_reset_streams(Some(LATE_FRAMES_MAX))
            .handshake(octets)
            .await;
        let (send, mut library) = handshake.map_err(|_| Error::ClosedBeforeRequest)?;
        let deadline = deadlines.map(Deadlines::register);
        let watch = library
            .ping_pong()
            .map(|pings| Watch::new(pings, *http2, state.clone(), clock.clone(), deadline));
        let ending = Ending(state.clone());
        let driver = Driver(Box::pin(async move {
            let ending = ending;
            let mut watch = watch;
            poll_fn(|cx| {
                loop {
                    // What has failed exchanges are told themselves.
                    if Pin::new(&mut library).poll(cx).is_ready() {
                        return Poll::Ready(());
                    }
                    ending.0.note_settings();
                    match watch.as_mut().map_or(Seen::Waits, |watch| watch.look(cx)) {
                        Seen::Asks => {}
                        Seen::Waits => return Poll::Pending,
                        Seen::IsOver => return Poll::Ready(()),
                    }
                }
            })
            .await;
            drop(ending);
        }));
        Ok((Self { send, state, config: *config, scheme, exchanges_max: http2.exchanges_max() }, driver))
    }

    /// Whether another exchange may begin now.
    pub fn has_room(&mut self) -> bool {
        let is_ready = self.send.poll_ready(&mut Context::from_waker(Waker::noop()));
        !self.state.is_over.get()
            && matches!(is_ready, Poll::Ready(Ok(())))
            && self.state.exchanges.get() < self.send.current_max_send_streams().min(self.exchanges_max)
    }

    /// Whether no exchange will begin any more.
    pub fn is_over(&mut self) -> bool {
        let is_ready = self.send.poll_ready(&mut Context::from_waker(Waker::noop()));
        self.state.is_over.get() || matches!(is_ready, Poll::Ready(Err(_)))
    }

    /// Whether nobody uses it: there is no exchange, and nobody waits to begin one.
    pub fn is_idle(&self) -> bool {
        self.state.exchanges.get() == 0 && self.state.awaiting_settings.borrow().is_empty()
    }

    /// What has the upstream asked whether it is still there. Does not keep the connection.
    pub fn doubt(&self) -> Doubt {
        Doubt(self.state.clone())
    }

    /// Whether the upstream takes upgrades, as extended CONNECT (RFC 8441 §3). Waits until its settings are
    /// there.
    ///
    /// # Errors
    /// The connection is over before that.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub async fn takes_upgrades(&self) -> Result<bool, Error> {
        poll_fn(|cx| {
            if self.state.has_settings.get() {
                return Poll::Ready(Ok(self.send.is_extended_connect_protocol_enabled()));
            }
            if self.state.is_over.get() {
                return Poll::Ready(Err(Error::ClosedBeforeRequest));
            }
            self.state.awaiting_settings.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Begins an exchange. `write_head` appends the octets of the request's head as HTTP/1.1 has them, and of
    /// content that is there already. A GET that asks for an upgrade becomes an extended CONNECT, which is to
    /// be sent only if the upstream [takes those](Self::takes_upgrades); in other requests, that is left out
    /// (RFC 9110 §7.8).
    ///
    /// # Errors
    /// The connection has ended meanwhile, or what was written is no request that can be said so.
    pub fn start(
        &mut self,
        request: RequestToSend,
        now: Duration,
        write_head: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Exchange, Error> {
        let mut octets = thruway_net::PooledBuffer::take();
        write_head(&mut octets);
        let spoken = Spoken::of(&octets, self.scheme.clone(), request.asks_for_upgrade);
        let Spoken { head, used, upgrade } = spoken.ok_or(Error::RequestUnspeakable)?;
        let content = Bytes::copy_from_slice(&octets[used..]);
        let sending = match request.body_length {
            BodyLength::NONE => Sending::Complete,
            BodyLength::Octets(remaining) => Sending::Octets { remaining },
            BodyLength::Chunked | BodyLength::UntilClose => Sending::Chunked,
        };
        let is_all = sending == Sending::Complete && content.is_empty() && upgrade.is_none();
        let (response, send) =
            self.send.send_request(head, is_all).map_err(|_| Error::ClosedBeforeRequest)?;
        let counted = Counted::new(self.state.clone());
        let parts = Parts { response, send, content, sending, upgrade, counted };
        Ok(Exchange::new(parts, request.response_to, self.config, now))
    }
}

/// Has the upstream of a connection asked whether it is still there, where others have found that it may not
/// be.
pub struct Doubt(Rc<State>);

impl Doubt {
    /// It is asked after [`ping_after`](Http2Config::ping_after) without a word, if it owes something: once
    /// more than otherwise as long as it answers nothing else, as for an exchange that begins.
    pub fn ask(&self) {
        self.0.has_begun.set(true);
        self.0.watching.borrow().iter().for_each(Waker::wake_by_ref);
    }

    /// Whether no exchange will begin any more.
    pub fn is_over(&self) -> bool {
        self.0.is_over.get()
    }
}

/// Marks the connection as over when its driver is.
struct Ending(Rc<State>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.is_over.set(true);
        self.0.wake();
    }
}

/// What a look at the connection has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    /// The upstream is asked whether it is still there.
    Asks,
    /// All is well, as far as anybody knows.
    Waits,
    /// It is dead, or nobody needs it.
    IsOver,
}

/// Looks whether the upstream is still there, and whether anybody needs it.
struct Watch {
    pings: PingPong,
    config: Http2Config,
    state: Rc<State>,
    clock: Clock,
    deadline: Option<Deadline>,
    received: u64,
    /// When something has come last, or there was an exchange.
    since: Duration,
    asked_at: Option<Duration>,
}

impl Watch {
    fn new(
        pings: PingPong,
        config: Http2Config,
        state: Rc<State>,
        clock: Clock,
        deadline: Option<Deadline>,
    ) -> Self {
        let since = clock.now();
        Self { pings, config, state, clock, deadline, received: 0, since, asked_at: None }
    }

    fn look(&mut self, cx: &mut Context<'_>) -> Seen {
        self.state.watching.borrow_mut().get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
        let now = self.clock.now();
        let received = self.state.heard.octets();
        let has_answered = self.pings.poll_pong(cx).is_ready();
        if has_answered {
            self.state.asked_behind.set(received);
        }
        if has_answered || received != self.received {
            (self.received, self.since, self.asked_at) = (received, now, None);
        }
        let is_needed = self.state.exchanges.get() > 0;
        let until = match self.asked_at {
            Some(at) => at + self.config.ping_timeout,
            None if is_needed => self.since + self.ping_after(),
            None => self.since + self.config.idle,
        };
        if let Some(deadline) = &self.deadline {
            deadline.set_waker(cx.waker());
            deadline.set(Some(until.max(now)));
        }
        if until > now {
            return Seen::Waits;
        }
        if self.asked_at.is_some() || !is_needed {
            return Seen::IsOver;
        }
        // Fails if an answer is still due, which will do as well.
        let _ = self.pings.send_ping(Ping::opaque());
        self.asked_at = Some(now);
        self.state.asked.set(self.state.asked.get().saturating_add(1));
        self.state.asked_behind.set(received);
        self.state.has_begun.set(false);
        Seen::Asks
    }

    /// How long nothing has come when the upstream is asked. Who has begun an exchange meanwhile is told
    /// soon, once, that it has gone.
    fn ping_after(&self) -> Duration {
        let most = PINGS_IN_A_ROW + u32::from(self.state.has_begun.get());
        let is_asked_enough = self.state.asked.get() >= most;
        if is_asked_enough { self.config.ping_after.max(PING_SELDOM) } else { self.config.ping_after }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("exchanges", &self.state.exchanges.get()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

/// Windows of so many streams make that of the connection.
const STREAMS: u32 = 100;
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// What of a request may wait on one stream to be written.
const SEND_BUFFER_BYTES: usize = 64 << 10;

/// Streams of exchanges that were given up, of which the library knows for a second that what still comes on
/// them was on its way.
const RESETS_REMEMBERED: usize = 1024;

/// Each frame that comes on a stream of which it knows no longer it answers with a reset, and after so many
/// it ends the connection, with all exchanges. Another connection is opened before that.
const LATE_FRAMES_MAX: usize = 1 << 16;

/// Servers of gRPC take it for an attack when they are asked a fourth time without having answered a request
/// between, unless five minutes have passed (`too_many_pings`).
const PINGS_IN_A_ROW: u32 = 2;
const PING_SELDOM: Duration = Duration::from_secs(310);
