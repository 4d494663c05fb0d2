//! The state of a forwarded request, and its attempts. One attempt sends the request to one server, in five
//! steps: `SelectServer`, `AcquireConnection`, `SendHead`, `Relay`, `Report`.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use thruway_client::Error;
use thruway_net::Worker;
use thruway_server::{Response, StatusCode};

use super::outcome::{FailedAttempt, UsedConnection};
use super::relay::Relay;
use super::request::OutgoingRequest;
use super::request_body::RequestBody;
use super::response::{Begun, Rest};
use super::response_body::respond;
use super::timeline::Timeline;
use super::timeouts::{ForwardTimeouts, is_event_stream};
use crate::meter::PendingRequest;
use crate::upstream::{
    Acquired, Exchange, NotOpened, Purpose, RequestKey, ServerSlot, Upstream, acquire_within_limit,
    open_within,
};
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
    /// Times of the steps. `None` if neither an access log nor a trace needs them.
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

    /// Records that no server is available at once.
    pub(super) fn note_wait(&self) {
        if let Some(timeline) = &self.timeline {
            timeline.waits(&self.upstream);
        }
    }

    /// Records the server that was selected for the next attempt.
    #[inline]
    pub(super) fn note_server(&mut self, slot: &ServerSlot) {
        if let Some(timeline) = &mut self.timeline {
            timeline.selected(slot);
        }
    }

    /// Records that the current attempt failed.
    #[cold]
    pub(super) fn note_failed_attempt(&mut self, failure: Failure) {
        if let Some(timeline) = &mut self.timeline {
            timeline.attempt_failed(failure, self.worker.clock());
        }
    }

    /// Completes `response` for the access log, and counts the request.
    #[inline]
    pub(super) fn complete(&mut self, response: &mut Response) {
        if let Some(timeline) = self.timeline.take() {
            self.complete_recorded(timeline, response);
        } else if let Some(pending) = self.pending.take() {
            pending.respond(response.status());
        }
    }

    /// Completes a response to a request whose steps are recorded. If the request has a trace, its metrics
    /// get an exemplar.
    fn complete_recorded(&mut self, timeline: Timeline, response: &mut Response) {
        if let Some(pending) = self.pending.take() {
            match timeline.trace() {
                Some(trace) => pending.respond_traced(response.status(), trace),
                None => pending.respond(response.status()),
            }
        }
        timeline.finish(response, || self.request.path());
    }

    /// Returns the response to a request that got no response from the upstream.
    #[cold]
    pub(super) fn error_response(&mut self, failure: Failure) -> Response {
        if let Some(timeline) = &mut self.timeline {
            timeline.failed(failure, self.worker.clock());
        }
        let mut response = failure.to_response();
        if let Some(rewrite) = self.request.response_rewrite() {
            rewrite.apply(&mut response);
        }
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
    /// attempt opened or reused its connection. If the response is rejected (`is_rejected`), records only the
    /// time of the server.
    #[inline]
    pub(super) fn record_time(
        &self,
        slot: &ServerSlot,
        asked: Option<Duration>,
        status: StatusCode,
        is_rejected: bool,
    ) -> Option<RecordedTimes> {
        let (TimedRequest { arrived, method }, asked) = self.timed.zip(asked)?;
        let (worker, now) = (self.worker.index(), self.worker.clock().now_exact());
        let attributes = ClientAttributes { method, status };
        let of_server = now.saturating_sub(asked.max(slot.sent()));
        let of_upstream = now.saturating_sub(arrived);
        slot.server.statistics().record(worker, attributes, of_server);
        if !is_rejected {
            self.upstream.statistics.responses.record(worker, of_upstream);
        }
        Some(RecordedTimes { attributes, of_server, of_upstream })
    }

    /// Records the response time like [`record_time`](Self::record_time). If the trace of the request is
    /// exported, adds exemplars with the span of the attempt and with the span of the request.
    fn record_traced_time(
        &self,
        slot: &ServerSlot,
        asked: Option<Duration>,
        status: StatusCode,
        is_rejected: bool,
    ) {
        let Some(times) = self.record_time(slot, asked, status, is_rejected) else { return };
        let Some(timeline) = &self.timeline else { return };
        let Some(trace) = timeline.trace() else { return };
        let (worker, now) = (self.worker.index(), || self.worker.clock().time_of_day());
        if let Some(exemplar) = trace.exemplar(timeline.attempt(), times.of_server, false, now) {
            slot.server.statistics().add_exemplar(worker, times.attributes, exemplar);
        }
        if !is_rejected && let Some(exemplar) = trace.exemplar(None, times.of_upstream, false, now) {
            self.upstream.statistics.responses.add_exemplar(worker, exemplar);
        }
    }
}

/// Recorded response times.
pub(super) struct RecordedTimes {
    attributes: ClientAttributes,
    of_server: Duration,
    of_upstream: Duration,
}

/// The connection that an attempt has acquired.
pub(super) struct Connected {
    connection: Acquired,
    /// Time at which the exchange begins.
    now: Duration,
    /// Time just before the attempt opened or reused a connection. `None` if response times are not
    /// recorded.
    asked: Option<Duration>,
    is_late: bool,
}

/// An attempt after which the request is retried, or fails.
pub(super) enum EndedAttempt {
    /// The attempt got no response.
    Failed(FailedAttempt),
    /// The response has a status that causes a retry. The retry is already allowed and counted.
    Rejected(Box<RejectedResponse>),
}

/// A response that causes a retry.
pub(super) struct RejectedResponse {
    pub(super) attempt: Attempt,
    pub(super) begun: Begun,
}

impl EndedAttempt {
    /// Returns the upstream of the attempt.
    pub(super) const fn upstream(&self) -> &Arc<Upstream> {
        match self {
            Self::Failed(failed) => &failed.upstream,
            Self::Rejected(rejected) => &rejected.attempt.relay.slot.upstream,
        }
    }
}

impl From<FailedAttempt> for EndedAttempt {
    fn from(failed: FailedAttempt) -> Self {
        Self::Failed(failed)
    }
}

impl RejectedResponse {
    /// Returns the response `begun` of `attempt` as the end of the attempt.
    #[cold]
    pub(super) fn of(attempt: Attempt, begun: Begun) -> EndedAttempt {
        EndedAttempt::Rejected(Box::new(Self { attempt, begun }))
    }
}

/// An attempt that waits for the response head.
pub(super) struct Attempt {
    pub(super) relay: Relay,
    used: UsedConnection,
    asked: Option<Duration>,
    is_late: bool,
    /// `true` if the response causes a retry because of its status.
    is_rejected: bool,
}

/// The point at which a request leaves the usual course.
pub(super) enum Detour {
    /// No server is available at once.
    SelectServer,
    /// There is no idle connection to the selected server.
    AcquireConnection(ServerSlot),
    /// The first attempt has failed, or its response causes a retry.
    Retry(EndedAttempt),
}

/// Polls a request on its usual course: the request gets a server and an idle connection at once, and the
/// server responds. `first` is the first attempt, after it has begun.
#[inline]
pub(super) fn poll_usual(
    forwarding: &mut Forwarding,
    first: &mut Option<Attempt>,
    cx: &mut Context<'_>,
) -> Poll<Result<Response, Detour>> {
    let attempt = match &mut *first {
        Some(attempt) => attempt,
        none => none.insert(begin_usual(forwarding)?),
    };
    let begun = match ready!(attempt.poll(cx, forwarding, 0)) {
        Ok(begun) => begun,
        Err(failure) => return Poll::Ready(Err(Detour::Retry(attempt.failed(failure).into()))),
    };
    if attempt.is_rejected
        && let Some(attempt) = first.take()
    {
        return Poll::Ready(Err(Detour::Retry(RejectedResponse::of(attempt, begun))));
    }
    let mut response = match begun.rest {
        Rest::Complete => begun.response,
        Rest::Stream { .. } | Rest::Tunnel => match first.take() {
            Some(attempt) => attempt.into_response(begun, forwarding),
            None => begun.response,
        },
    };
    forwarding.complete(&mut response);
    Poll::Ready(Ok(response))
}

/// Begins the first attempt on the usual course.
#[inline]
fn begin_usual(forwarding: &mut Forwarding) -> Result<Attempt, Detour> {
    forwarding.begin();
    let Forwarding { upstream, worker, key, .. } = &*forwarding;
    let slot = ServerSlot::select_at_once(upstream, worker, key, &[]).ok_or(Detour::SelectServer)?;
    if let Some(timeline) = &mut forwarding.timeline {
        timeline.selected_at_once(&slot);
    }
    match reuse_connection(forwarding, &slot) {
        Some(connected) => {
            Attempt::begin(forwarding, slot, connected, true).map_err(|failed| Detour::Retry(failed.into()))
        }
        None => Err(Detour::AcquireConnection(slot)),
    }
}

/// Sends the request to the server of `slot`. If no connection to this server is available, the request may
/// move to another server that is not in `tried`. If `later_than` is the sequence number of a connection, the
/// attempt uses a newer connection. With `connections_max`, it may use the same HTTP/2 connection again.
pub(super) async fn attempt(
    forwarding: &mut Forwarding,
    mut slot: ServerSlot,
    tried: &[usize],
    later_than: Option<u64>,
) -> Result<Response, EndedAttempt> {
    let reused = if later_than.is_none() { reuse_connection(forwarding, &slot) } else { None };
    let connected = match reused {
        Some(connected) => connected,
        None => acquire_connection(forwarding, &mut slot, tried, later_than)
            .await
            .map_err(|not_opened| FailedAttempt::of_connection(&slot, not_opened))?,
    };
    let mut attempt = Attempt::begin(forwarding, slot, connected, later_than.is_none())?;
    let begun = poll_fn(|cx| attempt.poll(cx, forwarding, tried.len())).await;
    let begun = begun.map_err(|failure| attempt.failed(failure))?;
    if attempt.is_rejected {
        return Err(RejectedResponse::of(attempt, begun));
    }
    Ok(match begun.rest {
        Rest::Complete => begun.response,
        Rest::Stream { .. } | Rest::Tunnel => attempt.into_response(begun, forwarding),
    })
}

impl Attempt {
    /// Begins the exchange on the connection. `may_be_stale` is `false` if the request required a new
    /// connection.
    #[inline]
    pub(super) fn begin(
        forwarding: &mut Forwarding,
        slot: ServerSlot,
        connected: Connected,
        may_be_stale: bool,
    ) -> Result<Self, FailedAttempt> {
        let Connected { connection, now, asked, is_late } = connected;
        let is_reused = connection.is_reused();
        let used = UsedConnection { number: connection.number(), may_be_stale: is_reused && may_be_stale };
        if forwarding.is_loop(&slot) {
            return Err(FailedAttempt::of_exchange(&slot, Failure::Loop, used));
        }
        if let Some(timeline) = &mut forwarding.timeline {
            timeline.connected(&slot, is_reused);
            if let Some(attempt) = timeline.attempt() {
                forwarding.request.set_trace_span(attempt);
            }
        }
        slot.server.statistics().count_connection(is_reused);
        match start(forwarding, &slot, connection, now) {
            Ok((exchange, is_head_unsent)) => {
                let relay = Relay::new(exchange, is_head_unsent, slot, forwarding.until);
                Ok(Self { relay, used, asked, is_late, is_rejected: false })
            }
            Err(error) => Err(FailedAttempt::of_exchange(&slot, error.into(), used)),
        }
    }

    /// Sends the request. Ready when the head of the response has arrived. `tried` is the number of servers at
    /// which the request has failed.
    #[inline]
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        forwarding: &mut Forwarding,
        tried: usize,
    ) -> Poll<Result<Begun, Failure>> {
        let mut polled = self.relay.poll_response(cx, &forwarding.request, &mut forwarding.body);
        // References, because moving the response would cost more than the rest of this function.
        if let Poll::Ready(Ok(begun)) = &mut polled {
            let accept = forwarding.request.websocket_accept.as_deref();
            if accept.is_some_and(|accept| !begun.proves(accept)) {
                return Poll::Ready(Err(Failure::UpgradeUnproven));
            }
            let status = begun.response.status();
            self.is_rejected = status >= StatusCode::BAD_REQUEST
                && forwarding.rejects(&self.relay.slot.upstream, status, tried);
            if let Some(timeline) = &mut forwarding.timeline {
                let is_complete = matches!(begun.rest, Rest::Complete);
                timeline.responded(&begun.response, is_complete, forwarding.worker.clock());
                forwarding.record_traced_time(&self.relay.slot, self.asked, status, self.is_rejected);
            } else {
                forwarding.record_time(&self.relay.slot, self.asked, status, self.is_rejected);
            }
            self.report(forwarding, begun);
        }
        polled
    }

    /// The step `Report`: records the response in the health of the server, completes the response headers,
    /// and ends the exchange of a complete response.
    #[inline]
    fn report(&mut self, forwarding: &Forwarding, begun: &mut Begun) {
        let relay = &mut self.relay;
        let is_complete = begun.is_complete();
        if !is_complete && is_event_stream(&begun.response) {
            relay.expect_events(forwarding.timeouts.of_event_stream(&relay.slot.upstream.config));
        }
        // The configured changes apply before the gateway adds its own headers, such as the sticky cookie.
        if let Some(rewrite) = forwarding.request.response_rewrite() {
            rewrite.apply(&mut begun.response);
        }
        if is_complete {
            let exchange = relay.take_complete_exchange();
            relay.slot.responded_completely(&mut begun.response, exchange, &forwarding.key);
        } else {
            relay.slot.responded(&mut begun.response, false, &forwarding.key);
        }
    }

    /// Returns the response to the client, which contains the incomplete body or the tunnel.
    pub(super) fn into_response(self, begun: Begun, forwarding: &mut Forwarding) -> Response {
        let trace = forwarding.timeline.as_ref().and_then(Timeline::body_trace);
        respond(begun, self.relay, forwarding.take_body(), trace)
    }

    /// Records the failure of the exchange.
    #[cold]
    pub(super) fn failed(&self, failure: Failure) -> FailedAttempt {
        let failure = fair(self.relay.blamed(failure), self.is_late);
        FailedAttempt::of_exchange(&self.relay.slot, failure, self.used)
    }
}

/// The step `AcquireConnection` without waiting: reuses an idle connection. Returns `None` if there is no
/// idle connection, or if connections are limited.
#[inline]
pub(super) fn reuse_connection(forwarding: &Forwarding, slot: &ServerSlot) -> Option<Connected> {
    if slot.upstream.limits_connections() {
        return None;
    }
    let connection = Acquired::Http1(slot.take_idle(slot.since())?);
    let asked = forwarding.timed.map(|_| slot.clock().now_exact());
    Some(Connected { connection, now: slot.since(), asked, is_late: forwarding.is_late(slot) })
}

/// The step `AcquireConnection`: opens a connection or shares an HTTP/2 connection. If connections are
/// limited, this step first waits for a permit or for an idle connection.
async fn acquire_connection(
    forwarding: &mut Forwarding,
    slot: &mut ServerSlot,
    tried: &[usize],
    later_than: Option<u64>,
) -> Result<Connected, NotOpened> {
    let limits_connections = slot.upstream.limits_connections();
    let waiting = if limits_connections {
        let waiting = acquire_within_limit(slot, forwarding.until, later_than.is_some(), tried);
        let waiting = waiting.await.map_err(|failure| NotOpened { failure, is_counted: false })?;
        // The response time of the server does not include the time that the request waited for a
        // connection.
        slot.begins();
        forwarding.note_server(slot);
        waiting
    } else {
        None
    };
    let is_late = forwarding.is_late(slot);
    let asked = forwarding.timed.map(|_| slot.clock().now_exact());
    if let Some(connection) = waiting {
        return Ok(Connected { connection: Acquired::Http1(connection), now: slot.since(), asked, is_late });
    }
    // With `connections_max`, the limit may not permit another connection. Therefore, this attempt may use
    // the HTTP/2 connection on which the server has refused the request. After the refusal, the gateway knows
    // how many streams the server allows on this connection.
    let later_than = later_than.filter(|_| !limits_connections);
    let purpose = Purpose { later_than, is_upgrade: forwarding.request.is_upgrade };
    match open_within(forwarding.left(), slot, purpose).await {
        Ok(connection) => Ok(Connected { connection, now: slot.clock().now(), asked, is_late }),
        Err(not) => Err(NotOpened { failure: fair(not.failure, is_late), ..not }),
    }
}

/// The step `SendHead`: begins the exchange. The first poll sends the request head, and the part of the body
/// that arrived with the head. Usually, it sends them directly from `forwarding`, without a copy in the
/// buffer of the exchange. Returns the exchange, and `true` if the exchange started without the request head.
#[inline]
fn start(
    forwarding: &mut Forwarding,
    slot: &ServerSlot,
    connection: Acquired,
    now: Duration,
) -> Result<(Exchange, bool), Error> {
    // A reused connection still has the timeouts of its previous request.
    let timeouts = forwarding.timeouts.of_exchange(&slot.upstream.config, forwarding.left());
    if let Some(body) = &mut forwarding.body {
        body.begin_again();
    }
    let request = &forwarding.request;
    match connection {
        Acquired::Http1(connection) if request.is_whole() => {
            let mut exchange = connection.start_without_head(request.to_send(), now);
            exchange.set_timeouts(timeouts);
            Ok((Exchange::Http1(exchange), true))
        }
        connection => {
            let write = |output: &mut Vec<u8>| request.write(output, || slot.upstream.host_of(&slot.server));
            Ok((connection.start(request.to_send(), timeouts, now, write)?, false))
        }
    }
}

/// Returns the failure to report for `failure`. If the request reached the server late (`is_late`), counts a
/// timeout of the server as [`Failure::TimedOut`], which does not count against the server.
const fn fair(failure: Failure, is_late: bool) -> Failure {
    match failure {
        Failure::Exchange(Error::TimedOut) if is_late => Failure::TimedOut,
        failure => failure,
    }
}
