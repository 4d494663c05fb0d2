//! Reads the first message of a TLS client (`ClientHello`) before the handshake.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustls::server::Acceptor;

use super::failure::HandshakeError;
use super::handshake::until;
use crate::buffers::PooledBuffer;
use crate::transport::Transport;
use crate::worker::ConnectionGuard;

/// The server name and the protocols that a client requests in its first message.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ClientHello {
    /// The server name (SNI), in lower case.
    pub server_name: Option<String>,
    /// The protocols that the client offers (ALPN).
    pub alpn: Vec<Vec<u8>>,
}

/// Reads the first message of a TLS client. `within` is the timeout. `early` contains the bytes that the
/// caller has already read. Also returns all bytes that were read, including `early`, because the code that
/// continues the handshake needs these bytes.
///
/// # Errors
/// The message is invalid or late, or the connection has ended or failed.
///
/// # Cancel safety
/// Dropping the future loses the bytes that were read.
pub async fn read_client_hello<T: Transport>(
    transport: &mut T,
    early: PooledBuffer,
    guard: &ConnectionGuard,
    within: Duration,
) -> Result<(ClientHello, PooledBuffer), HandshakeError> {
    let mut received = early;
    let mut acceptor = Acceptor::default();
    let mut fed = 0;
    let hello =
        until(guard, within, |cx| poll_hello(transport, cx, &mut received, &mut acceptor, &mut fed)).await?;
    Ok((hello, received))
}

/// Reads bytes until the message is complete. `fed` is the number of bytes in `received` that were already
/// passed to `acceptor`.
fn poll_hello<T: Transport>(
    transport: &mut T,
    cx: &mut Context<'_>,
    received: &mut PooledBuffer,
    acceptor: &mut Acceptor,
    fed: &mut usize,
) -> Poll<Result<ClientHello, HandshakeError>> {
    loop {
        while *fed < received.len() {
            *fed += acceptor.read_tls(&mut &received[*fed..]).map_err(HandshakeError::Io)?;
            match acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => return Poll::Ready(Ok(ClientHello::of(&accepted.client_hello()))),
                Err((error, _)) => return Poll::Ready(Err(HandshakeError::Refused(error))),
            }
        }
        let mut piece = [0; PIECE_BYTES];
        match ready!(transport.poll_read(cx, &mut piece)) {
            Ok(0) => return Poll::Ready(Err(HandshakeError::Ended)),
            Ok(length) => received.extend_from_slice(&piece[..length]),
            Err(error) => return Poll::Ready(Err(HandshakeError::Io(error))),
        }
    }
}

impl ClientHello {
    fn of(hello: &rustls::server::ClientHello<'_>) -> Self {
        let alpn = hello.alpn().map(|offers| offers.map(<[u8]>::to_vec).collect());
        Self { server_name: hello.server_name().map(str::to_ascii_lowercase), alpn: alpn.unwrap_or_default() }
    }
}

/// Number of bytes read at a time. Most first messages are shorter, even with a post-quantum key.
const PIECE_BYTES: usize = 2 << 10;
