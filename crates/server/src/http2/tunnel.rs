//! A stream that is no longer HTTP: after an extended CONNECT (RFC 8441), or a success of CONNECT (RFC 9113
//! §8.5).

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use thruway_net::{Http2Stream, PooledBuffer};

use crate::response::{Told, Tunnel, TunnelHandler, TunnelTrace};

/// A stream that its handler has turned into a tunnel, and the record of it.
pub(super) struct HandedOver {
    running: Pin<Box<dyn Future<Output = ()>>>,
    trace: Rc<TunnelTrace>,
    pub(super) told: Option<Told>,
}

impl HandedOver {
    /// Hands `octets` over.
    pub(super) fn new(handler: TunnelHandler, octets: Http2Stream, told: Option<Told>) -> Self {
        let trace = Rc::<TunnelTrace>::default();
        let tunnel = Tunnel::traced(Box::new(octets), PooledBuffer::default(), trace.clone());
        // Nothing of the handler runs before it is polled, where a panic is caught.
        let running = Box::pin(async { handler.run(tunnel).await });
        Self { running, trace, told }
    }

    /// Ready when the handler is done with it. One that panics breaks off its own stream, and no other of the
    /// connection.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.running.as_mut().poll(cx)));
        let Ok(polled) = polled else {
            self.trace.break_off();
            return Poll::Ready(());
        };
        ready!(polled);
        if let Some(mut octets) = self.trace.take_left()
            && !self.trace.is_broken_off()
        {
            // Otherwise what is on its way would be given up with the stream. Fails if the handler has said
            // the end itself.
            let _ = octets.poll_shutdown(cx);
        }
        Poll::Ready(())
    }

    /// Returns the number of bytes to the client.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.trace.sent_bytes()
    }

    /// Returns the number of bytes from the client.
    pub(super) fn received_bytes(&self) -> u64 {
        self.trace.received_bytes()
    }

    /// Returns `true` if one side has broken off.
    pub(super) fn is_broken_off(&self) -> bool {
        self.trace.is_broken_off()
    }
}
