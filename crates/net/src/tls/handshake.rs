//! From a connection to one in TLS.

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

/// Does the handshake with the client of `transport`, of which the octets `early` were read already, within
/// `within`. While the connection drains, only a little longer is waited.
///
/// # Errors
/// There is no connection in TLS, or not in time. A client that breaks a rule was told so.
///
/// # Cancel safety
/// If the future is dropped, the connection is closed.
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

/// Ends a connection in which nothing is to be said: sends what is left of the handshake and that nothing
/// follows, within `within`.
///
/// # Cancel safety
/// If the future is dropped, the connection is closed.
pub async fn end_tls<T: Transport>(mut stream: TlsStream<T>, guard: &ConnectionGuard, within: Duration) {
    // Whether the client has taken it changes nothing any more.
    let _ = until(guard, within, |cx| stream.poll_close(cx).map_err(HandshakeError::Io)).await;
}

/// Waits until the client of a handshake that was refused has gone, or `within` is over, and passes over a
/// little of what it still sends: a connection that is closed before all that came was read is reset, and the
/// alert is lost with it.
///
/// # Cancel safety
/// If the future is dropped, the connection is closed.
pub async fn see_off<T: Transport>(mut transport: T, guard: &ConnectionGuard, within: Duration) {
    let mut left = PASSED_OVER_BYTES;
    let gone = until(guard, within, |cx| {
        let mut scratch = Scratch::take();
        let outcome = poll_gone(&mut transport, cx, &mut scratch.input, &mut left);
        scratch.give_back();
        outcome.map(Ok)
    });
    // Whether it has gone or not, that was all.
    let _gone = gone.await;
}

/// Ready when the peer has ended the connection, or has sent too much.
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

/// Does the handshake with the server of `transport`, which must have a certificate for `server_name`, and
/// offers it `protocols`, or those of the connector. Whoever waits for it has the deadline.
///
/// # Errors
/// There is no connection in TLS. A server that breaks a rule was told so.
///
/// # Cancel safety
/// If the future is dropped, the connection is closed.
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

/// Polls `poll` until it is ready, or `within` is over. While the connection drains, it has only a little
/// longer.
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
    /// Ready when content can be written and read. The last flight of a client may be unsent then: it goes
    /// with the first content.
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
                    // The alert: nobody waits until it is taken.
                    let _ = self.poll_unsent(cx);
                    return Poll::Ready(Err(HandshakeError::Refused(error)));
                }
            };
            if is_done {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_unsent(cx)).map_err(ended)?;
            let room = input.len().saturating_sub(self.sealed.len()).min(FLIGHT_BYTES);
            if room == 0 {
                return Poll::Ready(Err(HandshakeError::Io(io::ErrorKind::InvalidData.into())));
            }
            match ready!(self.transport.poll_read(cx, &mut input[..room])).map_err(ended)? {
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

    /// Goes through what has arrived. Content that came with the end of the handshake is kept.
    fn step_all(&mut self) -> Result<(), rustls::Error> {
        loop {
            let opened = &mut self.opened;
            let take = |content: &[u8]| opened.append(content);
            let (used, progress) = self.session.step(&mut self.sealed, take, self.unsent.records());
            if let Some(name) = names::take_asked() {
                self.server_name = Some(name);
            }
            if progress.is_err() {
                self.session.last_words(&mut self.sealed, self.unsent.records());
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

/// Records of TLS begin with a small number, requests with the name of a method.
fn is_plain_http(octets: &[u8]) -> bool {
    octets.first().is_some_and(u8::is_ascii_uppercase)
}

/// What is read at a time.
const FLIGHT_BYTES: usize = 16 << 10;

/// More than what clients send before they look for an answer.
const PASSED_OVER_BYTES: usize = 256 << 10;

/// Long enough for the reactor to report what has arrived.
const DRAIN_WAIT: Duration = Duration::from_millis(150);
