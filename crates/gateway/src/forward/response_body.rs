//! The part of a response after its head: an incomplete body, or a tunnel.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use thruway_client::Error;
use thruway_net::{Pipe, PooledBuffer, Transport};
use thruway_server::{BoxError, Content, ContentStream, Piece, Response, StatusCode, Tunnel};

use super::relay::Relay;
use super::request_body::RequestBody;
use super::response::{Begun, Rest};
use super::timeline::BodyTrace;
use crate::Failure;
use crate::tunnel::{TunnelConfig, tunnel};
use crate::upstream::{Exchange, ServerSlot, Upgraded};

/// A response body that is still arriving, and the unsent part of the request body.
struct Streamed {
    relay: Relay,
    request_body: Option<Box<RequestBody>>,
    /// Response body bytes that arrived with the response head.
    first: PooledBuffer,
    length: Option<u64>,
    /// The trace of the request. `None` if tracing is off.
    trace: Option<Box<BodyTrace>>,
}

impl Streamed {
    /// Sends the request body bytes that have arrived, because the server may need these bytes to continue
    /// its response. Returns an error if the total timeout of the request has expired.
    fn poll_send(&mut self, cx: &mut Context<'_>, now: Duration) -> Result<(), BoxError> {
        // The timeout is checked here, because no timer runs while bytes arrive.
        if self.relay.until.is_some_and(|until| until <= now) {
            return Err(self.failed(Error::TimedOut.into()));
        }
        let Some(body) = &mut self.request_body else { return Ok(()) };
        self.relay.poll_send(cx, now, body).map(drop).map_err(|failure| self.failed(failure))
    }

    /// Records that the response body ended too early, also in the trace. Returns the error for the client's
    /// connection.
    #[cold]
    fn failed(&self, failure: Failure) -> BoxError {
        if let Some(trace) = &self.trace {
            trace.failed(failure, self.relay.slot.clock().now_exact());
        }
        self.relay.failed(failure)
    }
}

impl ContentStream for Streamed {
    fn poll_pipe(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<Poll<Result<Pipe, BoxError>>> {
        let this = &mut *self;
        if !this.first.is_empty() {
            return None;
        }
        let now = this.relay.slot.clock().now();
        if let Err(error) = this.poll_send(cx, now) {
            return Some(Poll::Ready(Err(error)));
        }
        let piped = this.relay.poll_pipe(cx, now)?;
        Some(piped.map_err(|error| this.failed(error.into())))
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        let this = &mut *self;
        if !this.first.is_empty() {
            let first = std::mem::take(&mut this.first);
            return Poll::Ready(Some(Ok(Piece::Data(Bytes::from_owner(first)))));
        }
        let now = this.relay.slot.clock().now();
        if let Err(error) = this.poll_send(cx, now) {
            return Poll::Ready(Some(Err(error)));
        }
        let piece = ready!(this.relay.poll_piece(cx, now));
        if let (Ok(None), Some(trace)) = (&piece, &this.trace) {
            trace.completed(this.relay.slot.clock().now_exact());
        }
        Poll::Ready(piece.map_err(|error| this.failed(error.into())).transpose())
    }

    /// Sends the remaining request body while the client does not read the response. Keeps at most one piece
    /// of the request body in memory.
    fn poll_meanwhile(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let now = self.relay.slot.clock().now();
        self.poll_send(cx, now)
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}

/// Returns the response to the client. While the response body is read, the remaining request body is sent.
pub(super) fn respond(
    begun: Begun,
    relay: Relay,
    request_body: Option<Box<RequestBody>>,
    trace: Option<BodyTrace>,
) -> Response {
    let Begun { response, rest } = begun;
    match rest {
        Rest::Complete => response,
        Rest::Stream { first, length } => {
            // If the server does not need the remaining request body, the gateway drops the body before it
            // sends the response head. The response head can then tell the client whether the connection
            // stays open.
            let request_body = request_body.filter(|_| relay.wants_content());
            let streamed = Streamed { relay, request_body, first, length, trace: trace.map(Box::new) };
            response.with_content(Content::from_content_stream(streamed))
        }
        Rest::Tunnel => open_tunnel(response, relay),
    }
}

/// Returns the response that opens a tunnel between the client and the upstream server. On each side, the
/// tunnel uses a whole connection or an HTTP/2 stream.
fn open_tunnel(response: Response, relay: Relay) -> Response {
    let (exchange, slot) = relay.into_exchange();
    let Some(upstream) = exchange.and_then(Exchange::into_tunnel) else {
        return Response::new(StatusCode::BAD_GATEWAY);
    };
    response.into_tunnel(async move |mut client| match upstream {
        Upgraded::Http1(upstream) => {
            run_tunnel(&mut client, upstream.transport, upstream.early, slot).await;
        }
        Upgraded::Http2(stream) => run_tunnel(&mut client, stream, PooledBuffer::default(), slot).await,
    })
}

/// Moves bytes between the client and the server until the tunnel ends. The tunnel counts as a request in
/// flight, because `slot` lives until then.
async fn run_tunnel(
    client: &mut Tunnel,
    server: impl Transport,
    server_early: PooledBuffer,
    slot: ServerSlot,
) {
    let config = TunnelConfig {
        // Bytes that the client sent after its request head arrive through `client`.
        client_early: PooledBuffer::default(),
        server_early,
        idle: slot.upstream.config.tunnel_idle,
        count: |_, _| {},
    };
    tunnel(client, server, slot.worker.clone(), config).await;
}
