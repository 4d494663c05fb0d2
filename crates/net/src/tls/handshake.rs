//! Performs and ends TLS handshakes.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::failure::HandshakeError;
use super::scratch::Scratch;
use super::session::Progress;
use super::stream::End;
use super::{TlsAcceptor, TlsConnector, TlsServerName, TlsStream, names};
use crate::buffers::PooledBuffer;
use crate::transport::Transport;
use crate::worker::ConnectionGuard;

/// Performs the TLS handshake with the client of `transport`. `within` is the timeout. `early` contains the
/// bytes that the caller has already read from `transport`. During a graceful shutdown, the timeout is at
/// most 150 ms.
///
/// # Errors
/// The handshake failed or exceeded the timeout. If the client broke a rule, the server has sent an alert.
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub async fn accept_tls<T: Transport>(
    transport: T,
    early: PooledBuffer,
    acceptor: &TlsAcceptor,
    guard: &ConnectionGuard,
    within: Duration,
) -> Result<TlsStream<T>, (T, HandshakeError)> {
    let mut stream = match acceptor.session() {
        Ok(session) => TlsStream::new(transport, session, early),
        Err(error) => return Err((transport, HandshakeError::Refused(error))),
    };
    let outcome = until(guard, within, |cx| stream.poll_handshake(cx)).await;
    match outcome {
        Ok(()) => Ok(stream),
        Err(error) => Err((stream.transport, error)),
    }
}

/// Closes a connection on which the server sent no application data. Sends the remaining handshake messages
/// and `close_notify`. `within` is the timeout.
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub async fn end_tls<T: Transport>(mut stream: TlsStream<T>, guard: &ConnectionGuard, within: Duration) {
    // Ignores the result, because the connection closes in any case.
    let _ = until(guard, within, |cx| stream.poll_close(cx).map_err(HandshakeError::Io)).await;
}

/// Waits until the client of a failed handshake has closed the connection, but no longer than `within`.
/// Discards the bytes that the client sends, up to a limit. Without this wait, the client may never receive
/// the alert: the kernel resets a connection that is closed before all received data was read.
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub async fn wait_for_close<T: Transport>(mut transport: T, guard: &ConnectionGuard, within: Duration) {
    let mut left = PASSED_OVER_BYTES;
    let gone = until(guard, within, |cx| {
        let mut scratch = Scratch::take();
        let outcome = poll_gone(&mut transport, cx, &mut scratch.input, &mut left);
        scratch.give_back();
        outcome.map(Ok)
    });
    // Ignores the result, because the connection closes in any case.
    let _gone = gone.await;
}

/// Ready when the peer has closed the connection, or when `left` bytes were discarded.
fn poll_gone<T: Transport>(
    transport: &mut T,
    cx: &mut Context<'_>,
    input: &mut [u8],
    left: &mut usize,
) -> Poll<()> {
    let _shut = ready!(transport.poll_shutdown(cx));
    while *left > 0 {
        match ready!(transport.poll_read(cx, input)) {
            Ok(0) | Err(_) => return Poll::Ready(()),
            Ok(read) => *left = left.saturating_sub(read),
        }
    }
    Poll::Ready(())
}

/// Performs the TLS handshake with the server at the other end of `transport`. The server must present a
/// certificate for `server_name`. The client offers `protocols` (ALPN), or the protocols of `connector` if
/// `protocols` is `None`. The function has no timeout.
///
/// # Errors
/// The handshake failed. If the server broke a rule, the client has sent an alert.
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub async fn connect_tls<T: Transport>(
    transport: T,
    connector: &TlsConnector,
    server_name: &TlsServerName,
    protocols: Option<&[&[u8]]>,
) -> Result<TlsStream<T>, HandshakeError> {
    let session = connector.session(server_name, protocols).map_err(HandshakeError::Refused)?;
    let mut stream = TlsStream::new(transport, session, PooledBuffer::default());
    poll_fn(|cx| stream.poll_handshake(cx)).await?;
    Ok(stream)
}

/// Calls `poll` until it is ready, but no longer than `within`. During a graceful shutdown, the timeout is at
/// most 150 ms.
pub(super) async fn until<R>(
    guard: &ConnectionGuard,
    within: Duration,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<Result<R, HandshakeError>>,
) -> Result<R, HandshakeError> {
    let worker = guard.worker();
    let deadline = worker.deadlines().register();
    let end = worker.clock().now() + within;
    let mut drain_end = None;
    poll_fn(|cx| {
        deadline.set_waker(cx.waker());
        let outcome = poll(cx);
        let now = worker.clock().now();
        if guard.is_draining() {
            drain_end.get_or_insert(now + DRAIN_WAIT);
        }
        let end = drain_end.map_or(end, |drain_end: Duration| drain_end.min(end));
        if outcome.is_pending() && now >= end {
            return Poll::Ready(Err(HandshakeError::TimedOut));
        }
        deadline.set(Some(end));
        outcome
    })
    .await
}

impl<T: Transport> TlsStream<T> {
    /// Ready when application data can be written and read. The last handshake messages of a client may
    /// still be unsent. The first write sends these messages together with its data.
    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), HandshakeError>> {
        let mut scratch = Scratch::take();
        let outcome = self.poll_flights(cx, &mut scratch.input);
        scratch.give_back();
        outcome
    }

    fn poll_flights(&mut self, cx: &mut Context<'_>, input: &mut [u8]) -> Poll<Result<(), HandshakeError>> {
        loop {
            if self.session.is_server() && is_plain_http(&self.sealed) {
                return Poll::Ready(Err(HandshakeError::PlainHttp(mem::take(&mut self.sealed))));
            }
            let is_done = match self.step_all() {
                Ok(()) => !self.session.common().is_handshaking(),
                Err(error) => {
                    // Tries to send the alert, but does not wait if the socket cannot accept it.
                    let _ = self.poll_unsent(cx);
                    return Poll::Ready(Err(HandshakeError::Refused(error)));
                }
            };
            if is_done {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_unsent(cx)).map_err(ended)?;
            let limit = input.len().saturating_sub(self.sealed.len()).min(FLIGHT_BYTES);
            if limit == 0 {
                return Poll::Ready(Err(HandshakeError::Io(io::ErrorKind::InvalidData.into())));
            }
            match ready!(self.transport.poll_read(cx, &mut input[..limit])).map_err(ended)? {
                0 => return Poll::Ready(Err(HandshakeError::Ended)),
                read => {
                    if self.sealed.capacity() == 0 {
                        self.sealed = PooledBuffer::take();
                    }
                    self.sealed.extend_from_slice(&input[..read]);
                }
            }
        }
    }

    /// Processes the received records. Stores application data that arrived together with the end of the
    /// handshake.
    fn step_all(&mut self) -> Result<(), rustls::Error> {
        loop {
            let opened = &mut self.opened;
            let take = |content: &[u8]| opened.append(content);
            let (used, progress) = self.session.step(&mut self.sealed, take, self.unsent.records());
            if let Some(name) = names::take_requested_name() {
                self.server_name = Some(name);
            }
            if progress.is_err() {
                self.session.take_alert(&mut self.sealed, self.unsent.records());
            }
            let progress = progress?;
            self.sealed.drain(..used);
            if self.sealed.is_empty() {
                self.sealed = PooledBuffer::default();
            }
            match progress {
                Progress::Moved => {}
                Progress::Waits => return Ok(()),
                Progress::PeerClosed => self.end = End::PeerClosed,
            }
        }
    }
}

fn ended(error: io::Error) -> HandshakeError {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => HandshakeError::Ended,
        _ => HandshakeError::Io(error),
    }
}

/// Returns `true` if `bytes` starts like an HTTP request: with a capital letter, as in a method name. The
/// first byte of a TLS record is a small number.
fn is_plain_http(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(u8::is_ascii_uppercase)
}

/// Number of bytes read at a time during a handshake.
const FLIGHT_BYTES: usize = 16 << 10;

/// Maximum number of bytes to discard after a failed handshake. Clients send fewer bytes before they read a
/// response.
const PASSED_OVER_BYTES: usize = 256 << 10;

/// Timeout during a graceful shutdown. The reactor needs this time to report data that has already arrived.
const DRAIN_WAIT: Duration = Duration::from_millis(150);
