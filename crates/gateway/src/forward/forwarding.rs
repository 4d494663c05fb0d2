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

/// A request on its way. It is lent to the futures that forward it: each that took it along would have room
/// for it twice.
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
    /// When its time is over; known when it sets out.
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

    /// Returns `true` if less than half of its time is left for the server of `slot`, which is not slow then.
    #[inline]
    pub(super) fn is_late(&self, slot: &ServerSlot) -> bool {
        let total = self.timeouts.total(&slot.upstream.config);
        self.left().zip(total).is_some_and(|(left, total)| left < total / 2)
    }

    /// Returns `true` if this process has sent the request to itself before and would do so again. Known once
    /// there is a connection to the server of `slot`.
    #[inline]
    pub(super) fn is_loop(&self, slot: &ServerSlot) -> bool {
        let is_loop = self.request.is_own && slot.server.leads_back();
        if is_loop {
            slot.server.log_loop(slot.upstream.name());
        }
        is_loop
    }

    /// Takes the rest of the content, which is not sent again.
    #[inline]
    pub(super) fn take_body(&mut self) -> Option<Box<RequestBody>> {
        let mut body = self.body.take();
        if let Some(body) = &mut body {
            body.forget();
        }
        body
    }

    /// Records the response time for the upstream and the server. `asked` is the time when the server got the
    /// request.
    #[inline]
    pub(super) fn record_time(&self, slot: &ServerSlot, asked: Option<Duration>, status: StatusCode) {
        let Some((TimedRequest { came, method }, asked)) = self.timed.zip(asked) else { return };
        let (worker, now) = (self.worker.index(), self.worker.clock().now_exact());
        let attributes = ClientAttributes { method, status };
        slot.server.statistics().record(worker, attributes, now.saturating_sub(asked.max(slot.sent())));
        self.upstream.statistics.responses.record(worker, now.saturating_sub(came));
    }
}
