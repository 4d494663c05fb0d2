//! Tunnels in an HTTP/2 stream, which begin after an extended CONNECT (RFC 8441) or a successful CONNECT (RFC
//! 9113 §8.5).

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use thruway_net::{Http2Stream, PooledBuffer};

use crate::response::{ResponseMetadata, Tunnel, TunnelHandler, TunnelTrace};

/// A stream that has become a tunnel, with data for its record.
pub(super) struct TunneledStream {
    running: Pin<Box<dyn Future<Output = ()>>>,
    trace: Rc<TunnelTrace>,
    pub(super) metadata: Option<ResponseMetadata>,
}

impl TunneledStream {
    /// Starts the tunnel on the stream `bytes`.
    pub(super) fn new(
        handler: TunnelHandler,
        bytes: Http2Stream,
        metadata: Option<ResponseMetadata>,
    ) -> Self {
        let trace = Rc::<TunnelTrace>::default();
        let tunnel = Tunnel::traced(Box::new(bytes), PooledBuffer::default(), trace.clone());
        // Calls the handler inside of the future, so that `poll` also catches a panic of this call.
        let running = Box::pin(async { handler.run(tunnel).await });
        Self { running, trace, metadata }
    }

    /// Polls the handler of the tunnel. Ready when the handler has ended. A panic of the handler breaks off
    /// only this stream.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.running.as_mut().poll(cx)));
        let Ok(polled) = polled else {
            self.trace.break_off();
            return Poll::Ready(());
        };
        ready!(polled);
        if let Some(mut bytes) = self.trace.take_returned()
            && !self.trace.is_broken_off()
        {
            // Without this call, the library would discard unsent data when the stream is dropped. The call
            // fails if the handler has already closed the stream.
            let _ = bytes.poll_shutdown(cx);
        }
        Poll::Ready(())
    }

    /// Returns the number of bytes that were sent to the client.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.trace.sent_bytes()
    }

    /// Returns the number of bytes that were received from the client.
    pub(super) fn received_bytes(&self) -> u64 {
        self.trace.received_bytes()
    }

    /// Returns `true` if the client or the handler has ended the stream early.
    pub(super) fn is_broken_off(&self) -> bool {
        self.trace.is_broken_off()
    }
}
