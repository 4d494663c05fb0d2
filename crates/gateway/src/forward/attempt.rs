//! From a request to its response, at one server or, when that fails, at another.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thruway_client::Error;
use thruway_net::{Clock, Worker};
use thruway_server::Response;

use super::relay::Relay;
use super::request::OutgoingRequest;
use super::request_body::RequestBody;
use super::request_id::RequestId;
use super::timeline::Timeline;
use super::timeouts::{ForwardTimeouts, is_event_stream};
use crate::Failure;
use crate::upstream::{
    Acquired, NotOpened, Purpose, RequestKey, Server, ServerSlot, Upstream, acquire_within_limit, open_within,
};

/// A request on its way. It is lent to the futures that forward it: each that took it along would have room for it twice.
pub(super) struct Forwarding {
    pub(super) worker: Rc<Worker>,
    pub(super) upstream: Arc<Upstream>,
    pub(super) key: RequestKey,
    pub(super) request: OutgoingRequest,
    /// What of the content was not there when the request came.
    pub(super) body: Option<Box<RequestBody>>,
    /// What it is called, if the response is to tell how it was forwarded.
    pub(super) recorded: Option<RequestId>,
    pub(super) timeouts: ForwardTimeouts,
    /// When its time is over; known when it sets out.
    pub(super) until: Option<Duration>,
    /// When it has come, if it is counted how long responses take.
    pub(super) timed: Option<Duration>,
}

/// Forwards a request; its response, whatever comes of it.
pub(super) async fn forward(forwarding: &mut Forwarding) -> Response {
    let worker = forwarding.worker.clone();
    let now = worker.clock().now();
    forwarding.upstream.count_request(now);
    let total = forwarding.timeouts.total(&forwarding.upstream.config);
    forwarding.until = total.map(|total| now.saturating_add(total));
    let mut timeline = Timeline::new(&forwarding.upstream, forwarding.recorded.take(), worker.clock());
    let mut response = match attempts(forwarding, &mut timeline).await {
        Ok(response) => response,
        Err(failure) => {
            timeline.failed(failure);
            let mut response = failure.to_response();
            rewrite(&forwarding.request, &mut response);
            response
        }
    };
    if let Some(forwarded) = timeline.finish() {
        response.set_forwarded(forwarded);
    }
    response
}

/// Changes a response as the config says.
fn rewrite(request: &OutgoingRequest, response: &mut Response) {
    if let Some(rewrite) = &request.response_rewrite {
        rewrite.apply(response);
    }
}

/// Sends a request, and again where that is safe: to another server, or to the same on a later connection if that had
/// closed one that waited to be used again, which says nothing against it.
async fn attempts(forwarding: &mut Forwarding, timeline: &mut Timeline<'_>) -> Result<Response, Failure> {
    let clock = timeline.clock();
    let mut tried = Vec::new();
    let mut again = None;
    loop {
        let (slot, later_than) = match again.take() {
            Some((slot, number)) => (slot, Some(number)),
            None => (forwarding.select(&tried).await?, None),
        };
        timeline.selected(&slot.server);
        let failed = match forwarding.attempt(slot, later_than, &tried, timeline).await {
            Ok(response) => return Ok(response),
            Err(failed) => failed,
        };
        let Failed { failure, may_be_stale, number, upstream, server } = failed;
        tracing::debug!(upstream = upstream.name(), server = %server.address, %failure, "a request could not be forwarded");
        if !forwarding.may_try_again(failure, clock) {
            return Err(failure);
        }
        if failure.retry().blames_nobody(may_be_stale) {
            again = ServerSlot::again(&upstream, &forwarding.worker, &forwarding.key, server)
                .map(|slot| (Box::new(slot), number));
        } else if upstream.allows_retry(tried.len(), clock) {
            tried.push(server.number);
        } else {
            return Err(failure);
        }
        upstream.statistics.count_retry();
        timeline.retries();
    }
}

/// What went wrong, and where that was.
struct Failed {
    failure: Failure,
    /// The connection had been used before, and another was not asked for.
    may_be_stale: bool,
    /// That of the connection, if it is shared.
    number: u64,
    /// Whose server it was: another than the request was for, if that has its place.
    upstream: Arc<Upstream>,
    server: Arc<Server>,
}

impl Forwarding {
    /// A server for the next attempt, none of those `tried` if there is another. In a box, because it passes through many hands: each would
    /// have room for it.
    async fn select(&self, tried: &[usize]) -> Result<Box<ServerSlot>, Failure> {
        let slot = ServerSlot::select(&self.upstream, &self.worker, &self.key, tried, self.until).await;
        slot.map(Box::new).inspect_err(|failure| self.upstream.statistics.count_failure(*failure))
    }

    /// Has the upstream and the server count how long the response took, of which the server was `asked` then.
    fn time(&self, slot: &ServerSlot, asked: Option<Duration>, clock: &Clock) {
        let Some((came, asked)) = self.timed.zip(asked) else { return };
        let now = clock.now_exact();
        let worker = self.worker.index();
        slot.server.statistics().responses.record(worker, now.saturating_sub(asked.max(slot.sent())));
        self.upstream.statistics.responses.record(worker, now.saturating_sub(came));
    }

    /// How long is left of its time, if it has an end.
    fn left(&self, clock: &Clock) -> Option<Duration> {
        self.until.map(|until| until.saturating_sub(clock.now()))
    }

    /// Returns `true` if less than half of its time is left for the server of the slot, which is not slow then.
    fn is_late(&self, slot: &ServerSlot, clock: &Clock) -> bool {
        let total = self.timeouts.total(&slot.upstream.config);
        self.left(clock).zip(total).is_some_and(|(left, total)| left < total / 2)
    }

    /// Returns `true` if this process has sent the request to itself before and would do so again. Known once
    /// there is a connection to the server of the slot.
    fn is_loop(&self, slot: &ServerSlot) -> bool {
        let is_loop = self.request.is_own && slot.server.leads_back();
        if is_loop {
            slot.server.log_loop(slot.upstream.name());
        }
        is_loop
    }

    /// Takes the rest of the content, which is not sent again.
    fn take_body(&mut self) -> Option<Box<RequestBody>> {
        let mut body = self.body.take();
        if let Some(body) = &mut body {
            body.forget();
        }
        body
    }

    /// Whether it may be sent again after `failure`, and there is time for it.
    fn may_try_again(&self, failure: Failure, clock: &Clock) -> bool {
        self.left(clock) != Some(Duration::ZERO)
            && self.body.as_ref().is_none_or(|body| body.can_begin_again())
            && failure.retry().allows(self.request.is_idempotent)
    }

    /// What a connection for it is for. Where there may be no later one, one that has refused it will do, which has said meanwhile how many
    /// streams it has.
    fn purpose(&self, slot: &ServerSlot, later_than: Option<u64>) -> Purpose {
        let later_than = later_than.filter(|_| !slot.upstream.limits_connections());
        Purpose { later_than, is_upgrade: self.request.is_upgrade }
    }

    /// One try at one server, none of those `tried` if there is another, on a connection that was opened `later_than` another if that is there.
    async fn attempt(
        &mut self,
        mut slot: Box<ServerSlot>,
        later_than: Option<u64>,
        tried: &[usize],
        timeline: &mut Timeline<'_>,
    ) -> Result<Response, Failed> {
        let clock = timeline.clock();
        let waiting = match later_than {
            _ if slot.upstream.limits_connections() => {
                let waiting = acquire_within_limit(&mut slot, self.until, later_than.is_some(), tried);
                let waiting = Box::pin(waiting).await;
                let waiting = waiting.map_err(|failure| {
                    let not_opened = NotOpened { failure, is_counted: false };
                    failed_to_open(&slot, not_opened)
                })?;
                // Its wait was not for the server.
                slot.begins();
                timeline.selected(&slot.server);
                waiting
            }
            Some(_) => None,
            None => slot.take_idle(slot.since()),
        };
        let is_late = self.is_late(&slot, clock);
        let fair = |failure| match failure {
            Failure::Exchange(Error::TimedOut) if is_late => Failure::TimedOut,
            failure => failure,
        };
        let asked = self.timed.map(|_| clock.now_exact());
        let (connection, now) = match waiting {
            Some(connection) => (Acquired::Http1(connection), slot.since()),
            // Boxed, so that requests on connections that are there have no room for it.
            None => Box::pin(open_within(self.left(clock), &slot, self.purpose(&slot, later_than)))
                .await
                .map(|connection| (connection, clock.now()))
                .map_err(|not| NotOpened { failure: fair(not.failure), ..not })
                .map_err(|not_opened| failed_to_open(&slot, not_opened))?,
        };
        let (is_reused, number) = (connection.is_reused(), connection.number());
        let may_be_stale = is_reused && later_than.is_none();
        let failed = |slot: &ServerSlot, failure: Failure| {
            slot.failed(failure, may_be_stale);
            if !failure.retry().blames_nobody(may_be_stale) {
                slot.server.statistics().count_failure(failure);
            }
            let (upstream, server) = (slot.upstream.clone(), slot.server.clone());
            Failed { failure, may_be_stale, number, upstream, server }
        };
        if self.is_loop(&slot) {
            return Err(failed(&slot, Failure::Loop));
        }
        timeline.connected(is_reused);
        slot.server.statistics().count_connection(is_reused);
        let write = |output: &mut Vec<u8>| self.request.write(output, || slot.upstream.host_of(&slot.server));
        let mut exchange = connection
            .start(self.request.to_send(), now, write)
            .map_err(|error| failed(&slot, error.into()))?;
        // A connection that was used before has those of another request.
        exchange.set_timeouts(self.timeouts.of_exchange(&slot.upstream.config, self.left(clock)));
        if let Some(body) = &mut self.body {
            body.begin_again();
        }
        let mut relay = Relay::new(exchange, slot, self.until);
        let begun = poll_fn(|cx| relay.poll_response(cx, &mut self.body)).await;
        let begun = begun.and_then(|begun| begun.proven(self.request.websocket_accept.as_deref()));
        let mut begun = begun.map_err(|failure| failed(&relay.slot, fair(relay.blamed(failure))))?;
        timeline.responded();
        self.time(&relay.slot, asked, clock);
        let is_complete = begun.is_complete();
        if !is_complete && is_event_stream(&begun.response) {
            relay.expect_events(self.timeouts.of_event_stream(&relay.slot.upstream.config));
        }
        // Before the gateway adds fields of its own.
        rewrite(&self.request, &mut begun.response);
        relay.slot.responded(&mut begun.response, is_complete, &self.key);
        Ok(begun.into_response(relay, self.take_body()))
    }
}

/// There was no connection.
#[cold]
fn failed_to_open(slot: &ServerSlot, not_opened: NotOpened) -> Failed {
    let NotOpened { failure, is_counted } = not_opened;
    if is_counted {
        slot.failed_with_another(failure);
    } else {
        slot.failed(failure, false);
        slot.server.statistics().count_failure(failure);
    }
    let (upstream, server) = (slot.upstream.clone(), slot.server.clone());
    Failed { failure, may_be_stale: false, number: 0, upstream, server }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Awaited;

    fn size_of_future<'f, F>(_: impl FnOnce(&'f mut Forwarding) -> F) -> usize {
        size_of::<F>()
    }

    /// What is larger, glibc does not keep for the thread that frees it, and takes ten times as long to find and to free.
    #[test]
    fn what_is_allocated_for_a_request_is_no_more_than_is_found_fast() {
        let size = size_of_future(forward) + size_of::<Forwarding>() + size_of::<Option<Awaited>>();
        assert!(size <= 1_024, "{size}");
    }
}
