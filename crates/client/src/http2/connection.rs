//! An HTTP/2 connection, which carries many exchanges.

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

use super::byte_stream::ByteStream;
use super::exchange::{Exchange, Parts, Sending};
use super::head::ConvertedRequest;
use super::state::{Counted, State};
use crate::{Config, Error, RequestToSend};

/// The settings of HTTP/2 connections. [`Config`] contains the limits and timeouts of responses, as for
/// HTTP/1.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Http2Config {
    /// Flow-control window of a stream: the number of body bytes that an upstream server may send before the
    /// client reads them. The default is 256 KiB. A larger window is faster over long distances. The window
    /// of the connection is 100 times as large, and the client opens at most 100 streams on a connection.
    /// Therefore the unread bodies of some exchanges cannot block other exchanges.
    pub stream_window_bytes: u32,
    /// Time without received data after which the connection sends a ping. The connection sends pings
    /// only while an exchange is active. The default is 10 s. If the server answers two pings and sends
    /// nothing else, the connection sends a ping only about every five minutes. More frequent pings make
    /// some servers close the connection.
    pub ping_after: Duration,
    /// Maximum time to wait for the answer to a ping. After this time, the connection and its exchanges
    /// fail. The default is 10 s.
    pub ping_timeout: Duration,
    /// Time after which a connection without exchanges is closed. The default is 30 s.
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

    /// Returns the number of stream windows that fit into the connection's window.
    fn exchanges_max(&self) -> usize {
        (self.connection_window_bytes() / self.stream_window_bytes.max(1)).max(1) as usize
    }
}

/// A connection to an upstream server. Clones share the connection. The connection closes when all clones
/// and exchanges are dropped.
#[derive(Clone)]
pub struct Connection {
    send: SendRequest<Bytes>,
    state: Rc<State>,
    config: Config,
    scheme: Scheme,
    /// Maximum number of concurrent exchanges. The window of the connection has space for this number of
    /// stream windows. The upstream server may set a lower limit.
    exchanges_max: usize,
}

/// A future that moves the bytes of a connection, and completes when the connection ends. Run the driver
/// on the same thread as the exchanges.
pub struct Driver(Pin<Box<dyn Future<Output = ()>>>);

impl Connection {
    /// Creates a connection on `transport`, which must be new. Also creates the driver of the connection,
    /// which reads the time from `clock`. `deadlines`, if set, wakes the driver when a time limit
    /// expires.
    ///
    /// # Errors
    /// Returns an error if the transport has failed.
    pub async fn new<T: Transport>(
        transport: T,
        config: &Config,
        http2: &Http2Config,
        clock: &Clock,
        deadlines: Option<&Deadlines>,
    ) -> Result<(Self, Driver), Error> {
        let scheme = if transport.is_secured() { Scheme::HTTPS } else { Scheme::HTTP };
        let state = Rc::new(State::default());
        let stream = ByteStream::new(transport, state.heard.clone());
        let list_bytes = config.limits.header_section_bytes.saturating_add(config.limits.field_lines * 32);
        let handshake = h2::client::Builder::new()
            .enable_push(false)
            .initial_window_size(http2.stream_window_bytes)
            .initial_connection_window_size(http2.connection_window_bytes())
            .max_header_list_size(list_bytes)
            .max_send_buffer_size(SEND_BUFFER_BYTES)
            .max_concurrent_reset_streams(RESETS_REMEMBERED)
            .max_local_error_reset_streams(Some(LATE_FRAMES_MAX))
            .handshake(stream)
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
                    // The exchanges report a failure of the connection, so the driver does not report it.
                    if Pin::new(&mut library).poll(cx).is_ready() {
                        return Poll::Ready(());
                    }
                    ending.0.note_settings();
                    match watch.as_mut().map_or(ConnectionCheck::Waits, |watch| watch.look(cx)) {
                        ConnectionCheck::SendsPing => {}
                        ConnectionCheck::Waits => return Poll::Pending,
                        ConnectionCheck::IsOver => return Poll::Ready(()),
                    }
                }
            })
            .await;
            drop(ending);
        }));
        Ok((Self { send, state, config: *config, scheme, exchanges_max: http2.exchanges_max() }, driver))
    }

    /// Returns `true` if another exchange can start now.
    pub fn has_capacity(&mut self) -> bool {
        let is_ready = self.send.poll_ready(&mut Context::from_waker(Waker::noop()));
        !self.state.is_over.get()
            && matches!(is_ready, Poll::Ready(Ok(())))
            && self.state.exchanges.get() < self.send.current_max_send_streams().min(self.exchanges_max)
    }

    /// Returns `true` if no more exchanges can start.
    pub fn is_over(&mut self) -> bool {
        let is_ready = self.send.poll_ready(&mut Context::from_waker(Waker::noop()));
        self.state.is_over.get() || matches!(is_ready, Poll::Ready(Err(_)))
    }

    /// Returns `true` if the connection has no exchange, and no task is waiting to start an exchange.
    pub fn is_idle(&self) -> bool {
        self.state.exchanges.get() == 0 && self.state.awaiting_settings.borrow().is_empty()
    }

    /// Returns a handle that requests a ping. The handle does not keep the connection open.
    pub fn ping_request(&self) -> PingRequest {
        PingRequest(self.state.clone())
    }

    /// Returns `true` if the upstream server accepts upgrades as extended CONNECT requests (RFC 8441 §3).
    /// Waits until the settings of the server have arrived.
    ///
    /// # Errors
    /// Returns an error if the connection ends before the settings arrive.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect on the connection.
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

    /// Starts an exchange. `write_head` appends the head of the request in HTTP/1.1 format, and
    /// optionally the start of the body. The connection sends a GET request with an upgrade as an
    /// extended CONNECT request. Start a request with an upgrade only if the server [accepts
    /// upgrades](Self::takes_upgrades). The connection removes the `Upgrade` field from other requests
    /// (RFC 9110 §7.8).
    ///
    /// # Errors
    /// Returns an error if the connection has ended, or if HTTP/2 cannot express the request.
    pub fn start(
        &mut self,
        request: RequestToSend,
        now: Duration,
        write_head: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Exchange, Error> {
        let mut bytes = thruway_net::PooledBuffer::take();
        write_head(&mut bytes);
        let converted = ConvertedRequest::of(&bytes, self.scheme.clone(), request.asks_for_upgrade);
        let ConvertedRequest { head, used, upgrade } = converted.ok_or(Error::RequestNotSendable)?;
        let content = Bytes::copy_from_slice(&bytes[used..]);
        let sending = match request.body_length {
            BodyLength::NONE => Sending::Complete,
            BodyLength::Bytes(remaining) => Sending::Bytes { remaining },
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

/// A handle for code that suspects that the upstream server is gone. The handle requests a ping on the
/// connection.
pub struct PingRequest(Rc<State>);

impl PingRequest {
    /// Allows the connection to send one additional ping. The start of an exchange has the same effect. If an
    /// exchange is active, the connection sends this ping when it has received no data for the time
    /// [`ping_after`](Http2Config::ping_after).
    pub fn ask(&self) {
        self.0.has_begun.set(true);
        self.0.watching.borrow().iter().for_each(Waker::wake_by_ref);
    }

    /// Returns `true` if no more exchanges can start on the connection.
    pub fn is_over(&self) -> bool {
        self.0.is_over.get()
    }
}

/// Ends the shared state of the connection when the driver is dropped.
struct Ending(Rc<State>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.is_over.set(true);
        self.0.wake();
    }
}

/// The result of a check of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ConnectionCheck {
    /// A ping was sent.
    SendsPing,
    /// No action is needed.
    Waits,
    /// The server is gone, or the connection is no longer needed.
    IsOver,
}

/// Checks if the upstream server still responds, and if the connection is still needed.
struct Watch {
    pings: PingPong,
    config: Http2Config,
    state: Rc<State>,
    clock: Clock,
    deadline: Option<Deadline>,
    received: u64,
    /// Time at which the connection was created or last received data.
    since: Duration,
    ping_sent_at: Option<Duration>,
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
        Self { pings, config, state, clock, deadline, received: 0, since, ping_sent_at: None }
    }

    fn look(&mut self, cx: &mut Context<'_>) -> ConnectionCheck {
        self.state.watching.borrow_mut().get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
        let now = self.clock.now();
        let received = self.state.heard.bytes();
        let has_answered = self.pings.poll_pong(cx).is_ready();
        if has_answered {
            self.state.ping_sent_at_bytes.set(received);
        }
        if has_answered || received != self.received {
            (self.received, self.since, self.ping_sent_at) = (received, now, None);
        }
        let is_needed = self.state.exchanges.get() > 0;
        let until = match self.ping_sent_at {
            Some(at) => at + self.config.ping_timeout,
            None if is_needed => self.since + self.ping_after(),
            None => self.since + self.config.idle,
        };
        if let Some(deadline) = &self.deadline {
            deadline.set_waker(cx.waker());
            deadline.set(Some(until.max(now)));
        }
        if until > now {
            return ConnectionCheck::Waits;
        }
        if self.ping_sent_at.is_some() || !is_needed {
            return ConnectionCheck::IsOver;
        }
        // `send_ping` fails if an earlier ping is unanswered. The earlier ping serves the same purpose,
        // so the error is ignored.
        let _ = self.pings.send_ping(Ping::opaque());
        self.ping_sent_at = Some(now);
        self.state.unanswered_pings.set(self.state.unanswered_pings.get().saturating_add(1));
        self.state.ping_sent_at_bytes.set(received);
        self.state.has_begun.set(false);
        ConnectionCheck::SendsPing
    }

    /// Returns the time without received data after which the connection sends the next ping. After
    /// [`PINGS_IN_A_ROW`] pings without a response to a request, this time is at least [`PING_SELDOM`]. A new
    /// exchange allows one additional ping after the usual time. If the server is gone, the exchange
    /// therefore fails soon.
    fn ping_after(&self) -> Duration {
        let most = PINGS_IN_A_ROW + u32::from(self.state.has_begun.get());
        let has_enough_pings = self.state.unanswered_pings.get() >= most;
        if has_enough_pings { self.config.ping_after.max(PING_SELDOM) } else { self.config.ping_after }
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

/// Number of stream windows that fit into the window of the connection.
const STREAMS: u32 = 100;
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// Maximum number of request bytes that wait on one stream.
const SEND_BUFFER_BYTES: usize = 64 << 10;

/// Maximum number of reset streams that the h2 library remembers. The library remembers each stream for one
/// second, and ignores frames that still arrive on it. Dropping an exchange resets its stream.
const RESETS_REMEMBERED: usize = 1024;

/// Maximum number of frames that arrive on reset streams after the h2 library has forgotten these streams.
/// The library answers each of these frames with a stream reset. Above this number, the library closes the
/// connection and all its exchanges. The limit `GIVEN_UP_MAX` is lower, so the caller opens a new connection
/// before that happens.
const LATE_FRAMES_MAX: usize = 1 << 16;

/// Maximum number of pings between two responses. If a gRPC server receives a fourth ping within five minutes
/// after the third ping, the server treats this as an attack (`too_many_pings`).
const PINGS_IN_A_ROW: u32 = 2;
const PING_SELDOM: Duration = Duration::from_secs(310);
