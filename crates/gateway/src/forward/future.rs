//! The future of a forwarded request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use thruway_server::Response;

use super::forwarding::{Attempt, Detour, Forwarding, poll_usual};
use super::retry::{retry, send};

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
            Ok(response) => Poll::Ready(response),
            Err(detour) => this.leave(detour, cx),
        }
    }
}

/// Completes a request that has left the usual course.
async fn complete(mut forwarding: Forwarding, from: Detour) -> Response {
    let outcome = match from {
        Detour::SelectServer => {
            forwarding.note_wait();
            send(&mut forwarding, None).await
        }
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
