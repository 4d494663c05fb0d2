//! Octets both ways until both sides are done.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use thruway_net::{Flow, PooledBuffer, Stream, Transport};
use thruway_server::ClientStream;

use super::Course;
use super::meter::{StreamEnd, StreamMeter};

/// Both directions.
struct Tunnel<'m> {
    request: Flow,
    response: Flow,
    /// What was told to the meter already.
    counted: [u64; 2],
    meter: &'m StreamMeter,
}

/// Moves octets both ways until both sides have said all, one breaks off, or nothing has moved for `idle`. What one side has said
/// to its end is ended on the other, which may go on to speak.
pub(super) async fn tunnel(
    client: &mut ClientStream,
    mut server: Stream,
    early: PooledBuffer,
    idle: Duration,
    course: &mut Course,
    meter: &StreamMeter,
) -> StreamEnd {
    let worker = client.worker().clone();
    let deadline = worker.deadlines().register();
    let mut tunnel =
        Tunnel { request: Flow::behind(early), response: Flow::default(), counted: [0; 2], meter };
    let (mut moved, mut moved_at) = (tunnel.moved(), worker.clock().now());
    let end = poll_fn(|cx| {
        deadline.set_waker(cx.waker());
        match tunnel.poll(cx, &mut client.stream, &mut server) {
            Poll::Ready(Ok(())) => return Poll::Ready(StreamEnd::Completed),
            Poll::Ready(Err(error)) => {
                tracing::debug!(%error, "a stream was broken off");
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
        // Nobody must take for complete what is not.
        server.discard_unsent();
        if !tunnel.response.is_ended() {
            client.stream.discard_unsent();
        }
    }
    tunnel.count();
    [course.received_bytes, course.sent_bytes] = tunnel.moved();
    end
}

impl Tunnel<'_> {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut Stream,
        server: &mut Stream,
    ) -> Poll<io::Result<()>> {
        let request = self.request.poll(cx, client, server);
        let response = self.response.poll(cx, server, client);
        // Only now: a server that takes no more may have said why.
        let (request, response) = (request?, response?);
        let uncounted = self.moved().iter().sum::<u64>() - self.counted.iter().sum::<u64>();
        if uncounted >= COUNTED_BYTES {
            self.count();
        }
        if request.is_ready() && response.is_ready() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Octets that have gone to the server, and to the client.
    const fn moved(&self) -> [u64; 2] {
        [self.request.moved_bytes(), self.response.moved_bytes()]
    }

    fn count(&mut self) {
        let ([request, response], [counted_request, counted_response]) = (self.moved(), self.counted);
        self.meter.moved(request - counted_request, response - counted_response);
        self.counted = [request, response];
    }
}

/// All workers count in the same place: not each time something moves, but often enough for whoever watches.
const COUNTED_BYTES: u64 = 1 << 20;
