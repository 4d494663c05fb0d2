//! A connection that is no longer HTTP: after `101 (Switching Protocols)`, or a successful CONNECT.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use thruway_net::{PooledBuffer, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The octets of a connection, both ways. Implements tokio's traits, so that crates for other protocols run on it. In TLS, octets of a write
/// that had to wait may be on their way: what is written next must begin with the same, so a write is not to be given up for another.
pub struct Tunnel {
    /// What came together with the head.
    early: PooledBuffer,
    early_used: usize,
    transport: Box<dyn Transport>,
}

impl Tunnel {
    /// The octets of `transport`, behind those that came `early`, together with a head.
    pub fn new(transport: Box<dyn Transport>, early: PooledBuffer) -> Self {
        Self { early, early_used: 0, transport }
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let early = &this.early[this.early_used..];
        if !early.is_empty() {
            let length = early.len().min(buffer.remaining());
            buffer.put_slice(&early[..length]);
            this.early_used += length;
            if this.early_used == this.early.len() {
                this.early = PooledBuffer::default();
                this.early_used = 0;
            }
            return Poll::Ready(Ok(()));
        }
        let length = ready!(this.transport.poll_read(cx, buffer.initialize_unfilled()))?;
        buffer.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        self.transport.poll_write(cx, &[IoSlice::new(octets)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.transport.poll_write(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.poll_shutdown(cx)
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel").finish_non_exhaustive()
    }
}

type BoxedRun = Box<dyn FnOnce(Tunnel) -> Pin<Box<dyn Future<Output = ()>>>>;

/// What to do with a connection that has become a tunnel.
pub(crate) struct TunnelHandler(BoxedRun);

impl TunnelHandler {
    pub(crate) fn new<F: Future<Output = ()> + 'static>(run: impl FnOnce(Tunnel) -> F + 'static) -> Self {
        Self(Box::new(move |tunnel| Box::pin(run(tunnel))))
    }

    pub(crate) fn run(self, tunnel: Tunnel) -> Pin<Box<dyn Future<Output = ()>>> {
        (self.0)(tunnel)
    }
}

impl fmt::Debug for TunnelHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TunnelHandler")
    }
}
