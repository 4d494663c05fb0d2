//! From a stream to a server that accepts it.

use std::sync::Arc;

use thruway_net::{Clock, Peer, Stream};

use super::Course;
use crate::Failure;
use crate::upstream::{self, Lease, RequestKey, Upstream};

/// A server that has accepted.
pub(super) struct Connected {
    pub(super) lease: Lease,
    pub(super) stream: Stream,
}

/// Connects to a server, and to another one if that fails: nothing of the stream was sent. A stream that
/// comes from this process does not go to a listener of this process: it could come back without end.
pub(super) async fn connect(
    upstream: &Arc<Upstream>,
    key: &RequestKey,
    from: Peer,
    clock: &Clock,
    course: &mut Course,
) -> Result<Connected, Failure> {
    upstream.count_request(clock.now());
    let mut tried = Vec::new();
    loop {
        let lease = upstream.lease(key, &tried, clock, None).await;
        let lease = lease.inspect_err(|failure| upstream.count_failure(*failure))?;
        course.server = Some(lease.server.label.clone());
        let since = clock.now_exact();
        let would_come_back = || lease.server.leads_back() && from.is_own();
        // If the server is known to lead back, no connection is opened: when this end closes it, nothing tells the
        // listener at the other end that it came from here, and the stream would go round without end.
        let connected = if would_come_back() { None } else { Some(upstream::connect(&lease).await) };
        let failure = match connected {
            None => Failure::Loop,
            // This connection has shown that the server leads back.
            Some(Ok(_)) if would_come_back() => Failure::Loop,
            Some(Ok(stream)) => {
                course.connect = Some(clock.now_exact().saturating_sub(since));
                lease.connected(clock);
                lease.server.count_connection(false);
                return Ok(Connected { lease, stream });
            }
            Some(Err(error)) => Failure::from(error),
        };
        if failure == Failure::Loop {
            lease.server.log_loop(upstream.name());
        }
        tracing::debug!(upstream = upstream.name(), server = %lease.server.address, %failure, "a stream could not be forwarded");
        lease.failed(failure, false, clock);
        lease.server.count_failure(failure);
        if !failure.retry().allows(true) || !upstream.allows_retry(tried.len(), clock) {
            return Err(failure);
        }
        tried.push(lease.server.number);
        upstream.count_retry();
        course.retries += 1;
    }
}
