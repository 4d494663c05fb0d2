//! Connects a TCP stream to a server.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thruway_net::{Clock, Peer, Stream, Worker};

use crate::Failure;
use crate::upstream::{self, RequestKey, ServerSlot, Upstream};

/// Times, byte counts and server of a TCP stream, for its log record.
pub(super) struct StreamTimeline {
    pub(super) since: Duration,
    pub(super) server: Option<Arc<str>>,
    pub(super) retries: u32,
    pub(super) connect: Option<Duration>,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
}

impl StreamTimeline {
    pub(super) fn new(clock: &Clock) -> Self {
        let since = clock.now_exact();
        Self { since, server: None, retries: 0, connect: None, received_bytes: 0, sent_bytes: 0 }
    }
}

/// An open connection to a server, and the slot that counts the stream at this server.
pub(super) struct Connected {
    pub(super) slot: ServerSlot,
    pub(super) stream: Stream,
}

/// Selects a server and connects to it. If the connection fails, tries another server, because the failed
/// server has received no byte of the stream. If the stream comes from this process, never connects it to a
/// listener of this process, because the stream could loop forever.
pub(super) async fn connect(
    upstream: &Arc<Upstream>,
    key: &RequestKey,
    from: Peer,
    worker: &Rc<Worker>,
    timeline: &mut StreamTimeline,
) -> Result<Connected, Failure> {
    let clock = worker.clock();
    upstream.count_request(clock.now());
    let mut tried = Vec::new();
    loop {
        let slot = ServerSlot::select(upstream, worker, key, &tried, None).await;
        let slot = slot.inspect_err(|failure| upstream.statistics.count_failure(*failure))?;
        timeline.server = Some(slot.server.label.clone());
        let since = clock.now_exact();
        let would_loop = || slot.server.is_own_listener() && from.is_own();
        // If the server is known to be a listener of this process, the gateway opens no connection. That
        // listener might not recognize that the connection comes from this process, and the stream would loop
        // forever.
        let connected = if would_loop() { None } else { Some(upstream::connect(&slot).await) };
        let failure = match connected {
            None => Failure::Loop,
            // This connection has shown that the server is a listener of this process.
            Some(Ok(_)) if would_loop() => Failure::Loop,
            Some(Ok(stream)) => {
                timeline.connect = Some(clock.now_exact().saturating_sub(since));
                slot.connected();
                slot.server.statistics().count_connection(false);
                return Ok(Connected { slot, stream });
            }
            Some(Err(error)) => Failure::from(error),
        };
        if failure == Failure::Loop {
            slot.server.log_loop(upstream.name());
        }
        tracing::debug!(upstream = upstream.name(), server = %slot.server.address, %failure, "forwarding of a TCP stream failed");
        slot.failed(failure, false);
        slot.server.statistics().count_failure(failure);
        if !failure.retry().allows(true) || !upstream.allows_retry(tried.len(), clock) {
            return Err(failure);
        }
        tried.push(slot.server.number);
        upstream.statistics.count_retry();
        timeline.retries += 1;
    }
}
