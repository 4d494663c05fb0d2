//! A request while it is forwarded, through all of its attempts.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thruway_net::Worker;
use thruway_server::StatusCode;

use super::request::OutgoingRequest;
use super::request_body::RequestBody;
use super::request_id::RequestId;
use super::timeouts::ForwardTimeouts;
use crate::ClientAttributes;
use crate::upstream::{RequestKey, ServerSlot, Upstream};

/// A forwarded request. The futures of the attempts borrow it: each future would otherwise reserve memory for
/// it twice.
pub(super) struct Forwarding {
    pub(super) worker: Rc<Worker>,
    pub(super) upstream: Arc<Upstream>,
    pub(super) key: RequestKey,
    pub(super) request: OutgoingRequest,
    /// The part of the body that had not arrived with the head.
    pub(super) body: Option<Box<RequestBody>>,
    /// The request id, if the access log records the forwarding.
    pub(super) recorded: Option<RequestId>,
    pub(super) timeouts: ForwardTimeouts,
    /// Time at which the request times out. Set when forwarding starts.
    pub(super) until: Option<Duration>,
    /// Facts for the recorded response times. `None` if they are not recorded.
    pub(super) timed: Option<TimedRequest>,
}

/// Facts about a request whose response times are recorded.
#[derive(Clone, Copy)]
pub(super) struct TimedRequest {
    /// When the request arrived.
    pub(super) came: Duration,
    /// Its method, as an attribute of metrics.
    pub(super) method: &'static str,
}

impl Forwarding {
    /// Returns the remaining time of the request, if it is limited.
    #[inline]
    pub(super) fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_sub(self.worker.clock().now()))
    }

    /// Returns `true` if the server of `slot` has less than half of the total time left. A timeout then does
    /// not mean that the server is slow.
    #[inline]
    pub(super) fn is_late(&self, slot: &ServerSlot) -> bool {
        let total = self.timeouts.total(&slot.upstream.config);
        self.left().zip(total).is_some_and(|(left, total)| left < total / 2)
    }

    /// Returns `true` if the request would pass this process for the third time. Known after the connection
    /// to the server of `slot` is open.
    #[inline]
    pub(super) fn is_loop(&self, slot: &ServerSlot) -> bool {
        let is_loop = self.request.is_own && slot.server.leads_back();
        if is_loop {
            slot.server.log_loop(slot.upstream.name());
        }
        is_loop
    }

    /// Takes the rest of the body. It cannot be sent again.
    #[inline]
    pub(super) fn take_body(&mut self) -> Option<Box<RequestBody>> {
        let mut body = self.body.take();
        if let Some(body) = &mut body {
            body.forget();
        }
        body
    }

    /// Records the response time for the upstream and the server. `asked` is the time at which the server got
    /// the request.
    #[inline]
    pub(super) fn record_time(&self, slot: &ServerSlot, asked: Option<Duration>, status: StatusCode) {
        let Some((TimedRequest { came, method }, asked)) = self.timed.zip(asked) else { return };
        let (worker, now) = (self.worker.index(), self.worker.clock().now_exact());
        let attributes = ClientAttributes { method, status };
        slot.server.statistics().record(worker, attributes, now.saturating_sub(asked.max(slot.sent())));
        self.upstream.statistics.responses.record(worker, now.saturating_sub(came));
    }
}
