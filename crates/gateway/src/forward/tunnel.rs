//! Connections that have become another protocol: octets both ways until both sides are done.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use thruway_client::Exchange;
use thruway_net::{PooledBuffer, Transport};
use thruway_server::{Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};

use super::relay::Relay;

/// The answer that makes the client's connection a tunnel to the upstream's.
pub(super) fn open(response: Response, relay: Relay) -> Response {
    let (exchange, lease) = relay.into_exchange();
    let Some(tunnel) = exchange.and_then(Exchange::into_tunnel) else {
        return Response::new(StatusCode::BAD_GATEWAY);
    };
    let mut upstream = Upstream { early: tunnel.early, early_used: 0, transport: tunnel.transport };
    response.into_tunnel(async move |mut client| {
        // Whoever fails has ended the tunnel.
        if let Err(error) = copy_bidirectional(&mut client, &mut upstream).await {
            tracing::debug!(%error, "a tunnel has ended");
        }
        // The server has had to do with it until now.
        drop(lease);
    })
}

/// The upstream's side of a tunnel.
struct Upstream<T> {
    /// What came together with the response.
    early: PooledBuffer,
    early_used: usize,
    transport: T,
}

impl<T: Transport + Unpin> AsyncRead for Upstream<T> {
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
            return Poll::Ready(Ok(()));
        }
        let length = ready!(this.transport.poll_read(cx, buffer.initialize_unfilled()))?;
        buffer.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<T: Transport + Unpin> AsyncWrite for Upstream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        self.transport.poll_write(cx, &[io::IoSlice::new(octets)])
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.poll_shutdown(cx)
    }
}
