//! Sends a request to the upstream, and decides about retries. This module handles the requests that leave
//! the [usual course](super::future).

use thruway_server::Response;

use super::forwarding::{EndedAttempt, Forwarding, attempt};
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
        Err(ended) => retry(forwarding, ended).await,
    }
}

/// Sends a request again after the attempt `ended`, until an attempt succeeds or a retry is not safe.
/// Usually, a retry goes to another server. If the server has only closed an idle connection, the retry goes
/// to the same server on a newer connection. If no server is available after a rejected response, returns
/// this response.
pub(super) async fn retry(forwarding: &mut Forwarding, mut ended: EndedAttempt) -> Result<Response, Failure> {
    let mut tried = Vec::new();
    loop {
        let upstream = ended.upstream().clone();
        let (again, rejected) = match ended {
            EndedAttempt::Failed(failed) => (after_failure(forwarding, &failed, &mut tried)?, None),
            EndedAttempt::Rejected(rejected) => {
                tried.push(rejected.server().number);
                (None, rejected.finish(forwarding).await)
            }
        };
        upstream.statistics.count_retry();
        if let Some(timeline) = &mut forwarding.timeline {
            timeline.retries(forwarding.worker.clock());
        }
        let (slot, later_than) = match again {
            Some((slot, connection)) => {
                forwarding.note_server(&slot);
                (slot, Some(connection))
            }
            None => match select_server(forwarding, &tried).await {
                Ok(slot) => (slot, None),
                Err(failure) => {
                    let response = rejected.ok_or(failure)?;
                    forwarding.record_upstream_time();
                    return Ok(response);
                }
            },
        };
        drop(rejected);
        ended = match attempt(forwarding, slot, &tried, later_than).await {
            Ok(response) => return Ok(response),
            Err(ended) => ended,
        };
    }
}

/// Decides about a retry after the attempt `failed`. For a retry at the same server, returns a slot, and the
/// sequence number of the connection that the retry must not use. For a retry at another server, appends the
/// server to `tried`.
///
/// # Errors
/// Returns the failure if no retry is allowed.
fn after_failure(
    forwarding: &mut Forwarding,
    failed: &FailedAttempt,
    tried: &mut Vec<usize>,
) -> Result<Option<(ServerSlot, u64)>, Failure> {
    let FailedAttempt { failure, upstream, server, .. } = failed;
    tracing::debug!(upstream = upstream.name(), server = %server.address, %failure, "attempt to forward a request failed");
    forwarding.note_failed_attempt(*failure);
    match decide_retry(forwarding, failed, tried.len()) {
        RetryDecision::Fail => Err(*failure),
        RetryDecision::SameServer => {
            let (worker, key) = (&forwarding.worker, &forwarding.key);
            let slot = ServerSlot::again(upstream, worker, key, server.clone());
            Ok(slot.map(|slot| (slot, failed.connection)))
        }
        RetryDecision::OtherServer => {
            tried.push(server.number);
            Ok(None)
        }
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
    let is_allowed =
        forwarding.can_begin_again() && failed.failure.retry().allows(forwarding.request.is_idempotent);
    match failed.blame {
        _ if !is_allowed => RetryDecision::Fail,
        Blame::Connection => RetryDecision::SameServer,
        Blame::Server if failed.upstream.allows_retry(tried, forwarding.worker.clock()) => {
            RetryDecision::OtherServer
        }
        Blame::Server => RetryDecision::Fail,
    }
}
