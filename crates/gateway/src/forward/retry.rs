//! Sends a request to the upstream, and decides about retries.

use std::time::Duration;

use thruway_server::Response;

use super::attempt::attempt;
use super::forwarding::Forwarding;
use super::outcome::{AttemptOutcome, Blame, FailedAttempt};
use super::timeline::Timeline;
use crate::Failure;
use crate::upstream::ServerSlot;

/// The next step after a failed attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RetryDecision {
    /// There is no retry, and the client gets an error response.
    Fail,
    /// The request is sent to the same server again, on a newer connection.
    SameServer,
    /// The request is sent to another server, if another server is available.
    OtherServer,
}

/// Forwards a request. Returns the response of the upstream, or an error response if forwarding has failed.
pub(super) async fn forward(forwarding: &mut Forwarding) -> Response {
    let worker = forwarding.worker.clone();
    let now = worker.clock().now();
    forwarding.upstream.count_request(now);
    let total = forwarding.timeouts.total(&forwarding.upstream.config);
    forwarding.until = total.map(|total| now.saturating_add(total));
    let recorded = forwarding.recorded.take();
    let mut timeline = recorded.map(|id| Timeline::new(&forwarding.upstream, id, worker.clock()));
    let mut response = match send(forwarding, &mut timeline).await {
        Ok(response) => response,
        Err(failure) => {
            if let Some(timeline) = &mut timeline {
                timeline.failed(failure);
            }
            let mut response = failure.to_response();
            forwarding.request.rewrite_response(&mut response);
            response
        }
    };
    if let Some(timeline) = timeline {
        timeline.finish(&mut response);
    }
    response
}

/// Sends a request. After a failure, sends the request again if that is safe. Usually, a retry goes to
/// another server. If the server has only closed an idle connection, the retry goes to the same server on a
/// newer connection.
async fn send(forwarding: &mut Forwarding, timeline: &mut Option<Timeline<'_>>) -> Result<Response, Failure> {
    let mut tried = Vec::new();
    let mut again = None;
    loop {
        let (slot, later_than) = match again.take() {
            Some((slot, connection)) => (slot, Some(connection)),
            None => (select_server(forwarding, &tried).await?, None),
        };
        if let Some(timeline) = timeline {
            timeline.selected(&slot.server);
        }
        let failed = match attempt(forwarding, slot, &tried, later_than, timeline).await {
            AttemptOutcome::Responded(response) => return Ok(response),
            AttemptOutcome::Failed(failed) => failed,
        };
        let FailedAttempt { failure, ref upstream, ref server, .. } = failed;
        tracing::debug!(upstream = upstream.name(), server = %server.address, %failure, "attempt to forward a request failed");
        match decide_retry(forwarding, &failed, tried.len()) {
            RetryDecision::Fail => return Err(failure),
            RetryDecision::SameServer => {
                let (worker, key) = (&forwarding.worker, &forwarding.key);
                let slot = ServerSlot::again(upstream, worker, key, server.clone());
                again = slot.map(|slot| (Box::new(slot), failed.connection));
            }
            RetryDecision::OtherServer => tried.push(server.number),
        }
        upstream.statistics.count_retry();
        if let Some(timeline) = timeline {
            timeline.retries();
        }
    }
}

/// The step `SelectServer`: selects a server for the next attempt. Selects a server in `tried` only if no
/// other server is available. The slot is boxed, because otherwise several futures would reserve memory for
/// it.
async fn select_server(forwarding: &Forwarding, tried: &[usize]) -> Result<Box<ServerSlot>, Failure> {
    let Forwarding { upstream, worker, key, until, .. } = forwarding;
    let slot = ServerSlot::select(upstream, worker, key, tried, *until).await;
    slot.map(Box::new).inspect_err(|failure| upstream.statistics.count_failure(*failure))
}

/// Decides about a retry after the attempt `failed`. `tried` is the number of servers at which the request
/// has failed. A retry at another server uses the retry budget. A retry at the same server does not use the
/// budget.
fn decide_retry(forwarding: &Forwarding, failed: &FailedAttempt, tried: usize) -> RetryDecision {
    let is_allowed = forwarding.left() != Some(Duration::ZERO)
        && forwarding.body.as_ref().is_none_or(|body| body.can_begin_again())
        && failed.failure.retry().allows(forwarding.request.is_idempotent);
    match failed.blame {
        _ if !is_allowed => RetryDecision::Fail,
        Blame::Connection => RetryDecision::SameServer,
        Blame::Server if failed.upstream.allows_retry(tried, forwarding.worker.clock()) => {
            RetryDecision::OtherServer
        }
        Blame::Server => RetryDecision::Fail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::PendingRequest;

    fn size_of_future<'f, F>(_: impl FnOnce(&'f mut Forwarding) -> F) -> usize {
        size_of::<F>()
    }

    /// Larger allocations are ten times slower, because they do not fit in the per-thread cache of glibc.
    #[test]
    fn allocation_per_request_fits_malloc_thread_cache() {
        let size = size_of_future(forward) + size_of::<Forwarding>() + size_of::<Option<PendingRequest>>();
        assert!(size <= 1_024, "{size}");
    }
}
