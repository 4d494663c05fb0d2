//! Moves bytes between a client and a server in both directions, until both have closed.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use thruway_net::{Flow, PooledBuffer, Transport, Worker};

use crate::StreamEnd;

/// Settings of a tunnel, and the bytes that arrived before the tunnel was open.
pub(crate) struct TunnelConfig<M> {
    /// Bytes that the client sent before the tunnel was open.
    pub(crate) client_early: PooledBuffer,
    /// Bytes that the server sent before the tunnel was open.
    pub(crate) server_early: PooledBuffer,
    /// Maximum time without a byte in either direction. Afterwards, the tunnel ends.
    pub(crate) idle: Duration,
    /// A function that the tunnel calls repeatedly and once at the end, to report byte counts. The arguments
    /// are the numbers of bytes sent to the server and to the client since the previous call.
    pub(crate) count: M,
}

/// Result of a tunnel that has ended.
pub(crate) struct Tunneled {
    pub(crate) end: StreamEnd,
    /// Number of bytes sent to the server.
    pub(crate) received_bytes: u64,
    /// Number of bytes sent to the client.
    pub(crate) sent_bytes: u64,
}

/// The two directions of a tunnel.
struct Tunnel<M> {
    request: Flow,
    response: Flow,
    /// Numbers of bytes that were already passed to `count`: bytes sent to the server, and bytes sent to
    /// the client.
    counted: [u64; 2],
    count: M,
}

/// Moves bytes between `client` and `server` in both directions. The tunnel ends when the client and the
/// server have closed, when one connection fails, or after the idle timeout in `config`. If only the client
/// or only the server has closed, the other may still send bytes.
pub(crate) async fn tunnel<C: Transport, S: Transport>(
    client: &mut C,
    mut server: S,
    worker: Rc<Worker>,
    config: TunnelConfig<impl FnMut(u64, u64)>,
) -> Tunneled {
    let TunnelConfig { client_early, server_early, idle, count } = config;
    let deadline = worker.deadlines().register();
    let (request, response) = (Flow::behind(client_early), Flow::behind(server_early));
    let mut tunnel = Tunnel { request, response, counted: [0; 2], count };
    let (mut moved, mut moved_at) = (tunnel.moved(), worker.clock().now());
    let end = poll_fn(|cx| {
        deadline.set_waker(cx.waker());
        match tunnel.poll(cx, client, &mut server) {
            Poll::Ready(Ok(())) => return Poll::Ready(StreamEnd::Completed),
            Poll::Ready(Err(error)) => {
                tracing::debug!(%error, "tunnel failed");
                return Poll::Ready(StreamEnd::BrokenOff);
            }
            Poll::Pending => {}
        }
        let now = worker.clock().now();
        if tunnel.moved() != moved {
            (moved, moved_at) = (tunnel.moved(), now);
        }
        if now >= moved_at + idle {
            return Poll::Ready(StreamEnd::IdleTimedOut);
        }
        deadline.set(Some(moved_at + idle));
        Poll::Pending
    })
    .await;
    if end != StreamEnd::Completed {
        // The peer then sees an aborted connection, and does not mistake an incomplete stream for a complete
        // stream.
        server.discard_unsent();
        if !tunnel.response.is_ended() {
            client.discard_unsent();
        }
    }
    tunnel.count();
    let [received_bytes, sent_bytes] = tunnel.moved();
    Tunneled { end, received_bytes, sent_bytes }
}

impl<M: FnMut(u64, u64)> Tunnel<M> {
    fn poll<C: Transport, S: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut C,
        server: &mut S,
    ) -> Poll<io::Result<()>> {
        let request = self.request.poll(cx, client, server);
        let response = self.response.poll(cx, server, client);
        // Errors are checked only after both polls. A server may send a response and then close the
        // connection while the client still sends.
        let (request, response) = (request?, response?);
        let uncounted = self.moved().iter().sum::<u64>() - self.counted.iter().sum::<u64>();
        if uncounted >= COUNTED_BYTES {
            self.count();
        }
        if request.is_ready() && response.is_ready() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Returns the numbers of bytes that were moved to the server and to the client.
    const fn moved(&self) -> [u64; 2] {
        [self.request.moved_bytes(), self.response.moved_bytes()]
    }

    fn count(&mut self) {
        let ([request, response], [counted_request, counted_response]) = (self.moved(), self.counted);
        (self.count)(request - counted_request, response - counted_response);
        self.counted = [request, response];
    }
}

/// Number of bytes after which the byte counts are reported. More frequent reports would cost time, because
/// all workers share the counters. These reports are frequent enough for monitoring.
const COUNTED_BYTES: u64 = 1 << 20;
