//! The future of a forwarded request, and the usual course of a request: the request gets a server and an idle
//! connection at once, and the server responds.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use thruway_server::Response;

use super::attempt::{Attempt, reuse_connection};
use super::forwarding::Forwarding;
use super::outcome::FailedAttempt;
use super::response::Rest;
use super::retry::{retry, send};
use crate::upstream::ServerSlot;

/// Forwards a request. The output is the response of the upstream, or an error response if forwarding has
/// failed.
///
/// The compiler would reserve memory for all states of all steps, and move each response through several
/// functions. Therefore, this future is not an `async` function. It allocates a second future for the
/// requests that leave the usual course.
pub(super) struct ForwardFuture {
    /// The state of the request. `None` after the request has left the usual course.
    forwarding: Option<Forwarding>,
    /// The first attempt, after it has begun.
    attempt: Option<Attempt>,
    /// Completes a request that has left the usual course.
    detour: Option<Pin<Box<dyn Future<Output = Response>>>>,
}

/// The point at which a request leaves the usual course.
enum Detour {
    /// No server is available at once.
    SelectServer,
    /// There is no idle connection to the selected server.
    AcquireConnection(ServerSlot),
    /// The first attempt has failed.
    Retry(FailedAttempt),
}

impl ForwardFuture {
    pub(super) const fn new(forwarding: Forwarding) -> Self {
        Self { forwarding: Some(forwarding), attempt: None, detour: None }
    }

    /// Completes a request that leaves the usual course.
    #[cold]
    fn leave(&mut self, from: Detour, cx: &mut Context<'_>) -> Poll<Response> {
        let Some(forwarding) = self.forwarding.take() else { return Poll::Pending };
        self.attempt = None;
        self.detour.insert(Box::pin(complete(forwarding, from))).as_mut().poll(cx)
    }
}

impl Future for ForwardFuture {
    type Output = Response;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        let this = self.get_mut();
        if let Some(detour) = &mut this.detour {
            return detour.as_mut().poll(cx);
        }
        let Some(forwarding) = &mut this.forwarding else { return Poll::Pending };
        match ready!(poll_usual(forwarding, &mut this.attempt, cx)) {
            Ok(mut response) => {
                forwarding.complete(&mut response);
                Poll::Ready(response)
            }
            Err(detour) => this.leave(detour, cx),
        }
    }
}

/// Polls a request on its usual course.
#[inline]
fn poll_usual(
    forwarding: &mut Forwarding,
    first: &mut Option<Attempt>,
    cx: &mut Context<'_>,
) -> Poll<Result<Response, Detour>> {
    let attempt = match &mut *first {
        Some(attempt) => attempt,
        none => none.insert(begin(forwarding)?),
    };
    let begun = match ready!(attempt.poll(cx, forwarding)) {
        Ok(begun) => begun,
        Err(failure) => return Poll::Ready(Err(Detour::Retry(attempt.failed(failure)))),
    };
    if let Rest::Complete = begun.rest {
        return Poll::Ready(Ok(begun.response));
    }
    match first.take() {
        Some(attempt) => Poll::Ready(Ok(attempt.into_response(begun, forwarding))),
        None => Poll::Ready(Ok(begun.response)),
    }
}

/// Begins the first attempt.
#[inline]
fn begin(forwarding: &mut Forwarding) -> Result<Attempt, Detour> {
    forwarding.begin();
    let Forwarding { upstream, worker, key, .. } = &*forwarding;
    let slot = ServerSlot::select_at_once(upstream, worker, key, &[]).ok_or(Detour::SelectServer)?;
    forwarding.note_server(&slot);
    match reuse_connection(forwarding, &slot) {
        Some(connected) => Attempt::begin(forwarding, slot, connected, true).map_err(Detour::Retry),
        None => Err(Detour::AcquireConnection(slot)),
    }
}

/// Completes a request that has left the usual course.
async fn complete(mut forwarding: Forwarding, from: Detour) -> Response {
    let outcome = match from {
        Detour::SelectServer => send(&mut forwarding, None).await,
        Detour::AcquireConnection(slot) => send(&mut forwarding, Some(slot)).await,
        Detour::Retry(failed) => retry(&mut forwarding, failed).await,
    };
    let mut response = outcome.unwrap_or_else(|failure| forwarding.error_response(failure));
    forwarding.complete(&mut response);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Larger allocations are ten times slower, because they do not fit in the per-thread cache of glibc.
    #[test]
    fn allocation_per_request_fits_malloc_thread_cache() {
        let size = size_of::<ForwardFuture>();
        assert!(size <= 768, "{size}");
    }
}
