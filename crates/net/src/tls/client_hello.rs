//! What a client asks for, before anything is decrypted.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustls::server::Acceptor;

use super::failure::HandshakeError;
use super::handshake::until;
use crate::buffers::PooledBuffer;
use crate::transport::Transport;
use crate::worker::ConnectionGuard;

/// What a client asks for in its first message.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ClientHello {
    /// The name of the server (SNI), in lower case.
    pub server_name: Option<String>,
    /// The protocols that it offers (ALPN).
    pub alpn: Vec<Vec<u8>>,
}

/// Reads the first message of a client of TLS, within `within`, and returns it with all octets that were
/// read: `early`, which were read before, and what has come behind. Whoever speaks TLS with the client needs
/// them.
///
/// # Errors
/// No such message comes, or not in time.
///
/// # Cancel safety
/// If the future is dropped, what was read is lost.
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

/// Reads until the message is complete. `fed` octets of what was received were given to `acceptor`.
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

/// Most such messages are shorter, even with a key that withstands quantum computers.
const PIECE_BYTES: usize = 2 << 10;
