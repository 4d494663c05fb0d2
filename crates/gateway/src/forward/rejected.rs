//! Responses that cause a retry because of their status.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use thruway_net::PooledBuffer;
use thruway_server::{Piece, Response, StatusCode};

use super::forwarding::{Forwarding, RejectedResponse, TimedRequest};
use super::relay::Relay;
use super::response::{Begun, Rest};
use crate::upstream::{Server, Upstream};

impl Forwarding {
    /// Returns `true` if the time and the request body allow another attempt.
    pub(super) fn can_begin_again(&self) -> bool {
        self.left() != Some(Duration::ZERO) && self.body.as_ref().is_none_or(|body| body.can_begin_again())
    }

    /// Returns `true` if a response of `upstream` with `status` causes a retry. If so, also takes the retry from
    /// the retry budget. `tried` is the number of servers at which the request has failed.
    #[cold]
    pub(super) fn rejects(&self, upstream: &Upstream, status: StatusCode, tried: usize) -> bool {
        upstream.retries_status(status)
            && self.request.is_idempotent
            && self.can_begin_again()
            && upstream.allows_retry(tried, self.worker.clock())
    }

    /// Records the response time of the upstream for a rejected response that the client gets after all.
    pub(super) fn record_upstream_time(&self) {
        if let Some(TimedRequest { arrived, .. }) = self.timed {
            let elapsed = self.worker.clock().now_exact().saturating_sub(arrived);
            self.upstream.statistics.responses.record(self.worker.index(), elapsed);
        }
    }
}

impl RejectedResponse {
    /// Returns the server of the response.
    pub(super) fn server(&self) -> &Server {
        &self.attempt.relay.slot.server
    }

    /// Ends the exchange, so that the retry can use the capacity of the server. Reads a small body, so that the
    /// connection can be reused, and returns the complete response. If the body is larger than 64 KiB or does
    /// not arrive within a second, closes the connection and returns `None`.
    pub(super) async fn finish(self: Box<Self>, forwarding: &mut Forwarding) -> Option<Response> {
        let Self { mut attempt, begun } = *self;
        let Begun { mut response, rest } = begun;
        let status = response.status().as_u16();
        let (upstream, server) = (attempt.relay.slot.upstream.name(), &attempt.relay.slot.server.address);
        tracing::debug!(upstream, %server, status, "the status of the response causes a retry");
        let whole = match rest {
            Rest::Complete => Some(response),
            Rest::Stream { first, length } => {
                read_rest(&mut attempt.relay, first, length).await.map(|whole| {
                    response.set_content(whole);
                    response
                })
            }
            Rest::Tunnel => None,
        };
        if let Some(timeline) = &mut forwarding.timeline {
            timeline.attempt_rejected(forwarding.worker.clock());
        }
        whole
    }
}

/// Reads the rest of a body that began with `first`, and returns the whole body. `length` is the length of the body,
/// if known. Returns `None` if the body is too long or too slow, if it broke off, or if the server waits for the rest
/// of the request.
async fn read_rest(relay: &mut Relay, first: PooledBuffer, length: Option<u64>) -> Option<PooledBuffer> {
    if length.is_some_and(|length| length > REST_BYTES_MAX as u64) || relay.wants_content() {
        return None;
    }
    let worker = relay.slot.worker.clone();
    let until = worker.clock().now() + REST_TIME_MAX;
    let deadline = worker.deadlines().register();
    deadline.set(Some(until));
    let mut whole = first;
    let is_whole = poll_fn(|cx| {
        deadline.set_waker(cx.waker());
        poll_rest(relay, cx, &mut whole, until)
    });
    if is_whole.await { Some(whole) } else { None }
}

/// Appends the rest of a body to `whole`. Ready with `true` at the end of the body, and with `false` if the body is
/// too long, broke off, or is not complete at the time `until`.
fn poll_rest(
    relay: &mut Relay,
    cx: &mut Context<'_>,
    whole: &mut PooledBuffer,
    until: Duration,
) -> Poll<bool> {
    loop {
        let now = relay.slot.clock().now();
        if now >= until {
            return Poll::Ready(false);
        }
        match relay.poll_piece(cx, now) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(None)) => return Poll::Ready(true),
            Poll::Ready(Ok(Some(Piece::Data(bytes)))) if whole.len() + bytes.len() <= REST_BYTES_MAX => {
                whole.extend_from_slice(&bytes);
            }
            Poll::Ready(Ok(Some(Piece::Data(_)))) => return Poll::Ready(false),
            // The copy of the response has no trailers.
            Poll::Ready(Ok(Some(Piece::Trailers(_)))) => {}
            Poll::Ready(Err(error)) => {
                drop(relay.failed(error.into()));
                return Poll::Ready(false);
            }
        }
    }
}

/// Maximum length of a body that is read before a retry.
const REST_BYTES_MAX: usize = 64 << 10;

/// Maximum time in which the body of a response is read before a retry.
const REST_TIME_MAX: Duration = Duration::from_secs(1);
