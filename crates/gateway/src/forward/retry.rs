//! Sends a request to the upstream, and decides about retries. This module handles the requests that leave
//! the [usual course](super::future).

use std::time::Duration;

use thruway_server::Response;

use super::forwarding::{Forwarding, attempt};
use super::outcome::{Blame, FailedAttempt};
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

/// Sends a request. If a server was already selected, sends the request to the server of `slot`. After a
/// failure, sends the request again if that is safe.
pub(super) async fn send(forwarding: &mut Forwarding, slot: Option<ServerSlot>) -> Result<Response, Failure> {
    let slot = match slot {
        Some(slot) => slot,
        None => select_server(forwarding, &[]).await?,
    };
    match attempt(forwarding, slot, &[], None).await {
        Ok(response) => Ok(response),
        Err(failed) => retry(forwarding, failed).await,
    }
}

/// Sends a request again after the attempt `failed`, until an attempt succeeds or a retry is not safe.
/// Usually, a retry goes to another server. If the server has only closed an idle connection, the retry goes
/// to the same server on a newer connection.
pub(super) async fn retry(
    forwarding: &mut Forwarding,
    mut failed: FailedAttempt,
) -> Result<Response, Failure> {
    let mut tried = Vec::new();
    loop {
        let FailedAttempt { failure, ref upstream, ref server, .. } = failed;
        tracing::debug!(upstream = upstream.name(), server = %server.address, %failure, "attempt to forward a request failed");
        forwarding.note_failed_attempt(failure);
        let again = match decide_retry(forwarding, &failed, tried.len()) {
            RetryDecision::Fail => return Err(failure),
            RetryDecision::SameServer => {
                let (worker, key) = (&forwarding.worker, &forwarding.key);
                ServerSlot::again(upstream, worker, key, server.clone())
            }
            RetryDecision::OtherServer => {
                tried.push(server.number);
                None
            }
        };
        upstream.statistics.count_retry();
        if let Some(timeline) = &mut forwarding.timeline {
            timeline.retries(forwarding.worker.clock());
        }
        let (slot, later_than) = match again {
            Some(slot) => {
                forwarding.note_server(&slot);
                (slot, Some(failed.connection))
            }
            None => (select_server(forwarding, &tried).await?, None),
        };
        failed = match attempt(forwarding, slot, &tried, later_than).await {
            Ok(response) => return Ok(response),
            Err(failed) => failed,
        };
    }
}

/// The step `SelectServer`: selects a server for the next attempt. Selects a server in `tried` only if no
/// other server is available.
async fn select_server(forwarding: &mut Forwarding, tried: &[usize]) -> Result<ServerSlot, Failure> {
    let Forwarding { upstream, worker, key, until, .. } = &*forwarding;
    let slot = ServerSlot::select(upstream, worker, key, tried, *until)
        .await
        .inspect_err(|failure| upstream.statistics.count_failure(*failure))?;
    forwarding.note_server(&slot);
    Ok(slot)
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
