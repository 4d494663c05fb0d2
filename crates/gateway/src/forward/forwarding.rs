//! The state of a forwarded request during all attempts to send it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thruway_net::Worker;
use thruway_server::{Response, StatusCode};

use super::request::OutgoingRequest;
use super::request_body::RequestBody;
use super::timeline::Timeline;
use super::timeouts::ForwardTimeouts;
use crate::meter::PendingRequest;
use crate::upstream::{RequestKey, ServerSlot, Upstream};
use crate::{ClientAttributes, Failure};

/// The state of a forwarded request during all attempts.
pub(super) struct Forwarding {
    pub(super) worker: Rc<Worker>,
    pub(super) upstream: Arc<Upstream>,
    pub(super) key: RequestKey,
    pub(super) request: OutgoingRequest,
    /// The request body. `None` if the body arrived completely with the head, because `request` then
    /// contains the body.
    pub(super) body: Option<Box<RequestBody>>,
    /// Durations for the access log. `None` if the access log does not record forwarded requests.
    pub(super) timeline: Option<Timeline>,
    pub(super) timeouts: ForwardTimeouts,
    /// Time at which the request times out. This field is set when forwarding starts.
    pub(super) until: Option<Duration>,
    /// Arrival time and method, for recording the response time. `None` if response times are not recorded.
    pub(super) timed: Option<TimedRequest>,
    /// Counts the request in the metrics of its route. `None` if the route has no meter.
    pub(super) pending: Option<PendingRequest>,
}

/// Properties of a request that are needed to record its response time.
#[derive(Clone, Copy)]
pub(super) struct TimedRequest {
    /// Time at which the request arrived.
    pub(super) arrived: Duration,
    /// Method of the request, as an attribute of metrics.
    pub(super) method: &'static str,
}

impl Forwarding {
    /// Counts the request, and starts its total timeout. Called before the first attempt.
    #[inline]
    pub(super) fn begin(&mut self) {
        let now = self.worker.clock().now();
        self.upstream.count_request(now);
        let total = self.timeouts.total(&self.upstream.config);
        self.until = total.map(|total| now.saturating_add(total));
    }

    /// Records the server that was selected for the next attempt.
    #[inline]
    pub(super) fn note_server(&mut self, slot: &ServerSlot) {
        if let Some(timeline) = &mut self.timeline {
            timeline.selected(&slot.server);
        }
    }

    /// Completes `response` for the access log, and counts the request.
    #[inline]
    pub(super) fn complete(&mut self, response: &mut Response) {
        if let Some(timeline) = self.timeline.take() {
            timeline.finish(response);
        }
        if let Some(pending) = self.pending.take() {
            pending.respond(response.status());
        }
    }

    /// Returns the response to a request that got no response from the upstream.
    #[cold]
    pub(super) fn error_response(&mut self, failure: Failure) -> Response {
        if let Some(timeline) = &mut self.timeline {
            timeline.failed(failure);
        }
        let mut response = failure.to_response();
        self.request.rewrite_response(&mut response);
        response
    }

    /// Returns the remaining time of the request. Returns `None` if the request has no total timeout.
    #[inline]
    pub(super) fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_sub(self.worker.clock().now()))
    }

    /// Returns `true` if more than half of the request's total time has passed before the server of `slot`
    /// gets the request. A timeout of such a request does not show that the server is slow.
    #[inline]
    pub(super) fn is_late(&self, slot: &ServerSlot) -> bool {
        let total = self.timeouts.total(&slot.upstream.config);
        self.left().zip(total).is_some_and(|(left, total)| left < total / 2)
    }

    /// Returns `true` if the request came from this process and the server of `slot` is a listener of this
    /// process. In this case, the process would send the request to itself a second time. Call this method
    /// after opening a connection to the server, because only the connection shows whether the server is a
    /// listener of this process.
    #[inline]
    pub(super) fn is_loop(&self, slot: &ServerSlot) -> bool {
        let is_loop = self.request.is_own && slot.server.is_own_listener();
        if is_loop {
            slot.server.log_loop(slot.upstream.name());
        }
        is_loop
    }

    /// Takes the unsent part of the request body. Afterwards, the body cannot be sent again.
    #[inline]
    pub(super) fn take_body(&mut self) -> Option<Box<RequestBody>> {
        let mut body = self.body.take();
        if let Some(body) = &mut body {
            body.forget();
        }
        body
    }

    /// Records the response time of the upstream and of the server. `asked` is the time just before the
    /// attempt opened or reused its connection.
    #[inline]
    pub(super) fn record_time(&self, slot: &ServerSlot, asked: Option<Duration>, status: StatusCode) {
        let Some((TimedRequest { arrived, method }, asked)) = self.timed.zip(asked) else { return };
        let (worker, now) = (self.worker.index(), self.worker.clock().now_exact());
        let attributes = ClientAttributes { method, status };
        slot.server.statistics().record(worker, attributes, now.saturating_sub(asked.max(slot.sent())));
        self.upstream.statistics.responses.record(worker, now.saturating_sub(arrived));
    }
}
