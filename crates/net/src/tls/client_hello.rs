//! The first message of a TLS client, read before the handshake.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustls::server::Acceptor;

use super::failure::HandshakeError;
use super::handshake::until;
use crate::buffers::PooledBuffer;
use crate::transport::Transport;
use crate::worker::ConnectionGuard;

/// The requests in the client's first message.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ClientHello {
    /// The server name (SNI), in lower case.
    pub server_name: Option<String>,
    /// The protocols that the client offers (ALPN).
    pub alpn: Vec<Vec<u8>>,
}

/// Reads the first message of a TLS client, within `within`. Also returns all bytes that were read: `early`,
/// which the caller read before, and all bytes after it. The code that continues the handshake needs them.
///
/// # Errors
/// The message is invalid or late, or the connection failed.
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

/// Reads until the message is complete. `acceptor` has already got the first `fed` bytes.
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

/// Number of bytes read at a time. Most messages are shorter, even with a post-quantum key.
const PIECE_BYTES: usize = 2 << 10;
