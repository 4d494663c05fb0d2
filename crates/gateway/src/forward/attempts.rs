//! From a request to its response, at one server or, when that fails, at another.

use std::future::poll_fn;
use std::sync::Arc;

use thruway_client::Connection;
use thruway_net::{Clock, Worker};
use thruway_server::Response;

use super::course::Course;
use super::relay::Relay;
use super::request::{OutgoingRequest, RequestBody};
use crate::Failure;
use crate::upstream::{Lease, RequestKey, Server, Upstream, acquire, connect_secured};

/// Forwards a request, and tells of it with the response if it `is_recorded`.
pub(super) async fn forward(
    upstream: Arc<Upstream>,
    key: RequestKey,
    request: OutgoingRequest,
    mut body: Option<RequestBody>,
    is_recorded: bool,
) -> Response {
    let clock = Worker::current().map_or_else(Clock::system, |worker| worker.clock().clone());
    upstream.count_request(&clock);
    let mut course = Course::new(&upstream, is_recorded, &clock);
    let mut response = match attempts(&upstream, key, &request, &mut body, &mut course).await {
        Ok(response) => response,
        Err(failure) => {
            course.failed(failure);
            let mut response = failure.to_response();
            rewrite(&request, &mut response);
            response
        }
    };
    if let Some(forwarded) = course.finish() {
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

/// Sends a request, and again where that is safe: to another server, or to the same on a fresh connection if that had
/// closed one that waited to be used again, which says nothing against it.
async fn attempts(
    upstream: &Arc<Upstream>,
    key: RequestKey,
    request: &OutgoingRequest,
    body: &mut Option<RequestBody>,
    course: &mut Course<'_>,
) -> Result<Response, Failure> {
    let clock = course.clock();
    let mut tried = Vec::new();
    let mut again = None;
    loop {
        let is_fresh = again.is_some();
        let lease = match again.take() {
            Some(lease) => lease,
            None => upstream
                .lease(key, &tried, clock)
                .await
                .inspect_err(|failure| upstream.count_failure(*failure))?,
        };
        course.leased(&lease.server);
        let attempt = Attempt { lease, key, is_fresh, clock };
        let Failed { failure, is_reused, server } = match attempt.run(request, body, course).await {
            Ok(response) => return Ok(response),
            Err(failed) => failed,
        };
        tracing::debug!(upstream = upstream.name(), server = %server.address, %failure, "a request could not be forwarded");
        // What of the content has been taken is not kept.
        let is_whole = body.as_ref().is_none_or(|body| body.is_untouched);
        if !is_whole || !failure.retry().allows(request.is_idempotent) {
            return Err(failure);
        }
        if failure.retry().blames_nobody(is_reused) {
            again = upstream.lease_again(key, server, clock);
        } else if upstream.allows_retry(tried.len(), clock) {
            tried.push(server.number);
        } else {
            return Err(failure);
        }
        upstream.count_retry();
        course.retries();
    }
}

/// One try at one server.
struct Attempt<'c> {
    lease: Lease,
    key: RequestKey,
    /// Whether the connection must be one that was not used before.
    is_fresh: bool,
    clock: &'c Clock,
}

/// What went wrong, whether the connection had been used before, and where that was.
struct Failed {
    failure: Failure,
    is_reused: bool,
    server: Arc<Server>,
}

impl Attempt<'_> {
    async fn run(
        self,
        request: &OutgoingRequest,
        body: &mut Option<RequestBody>,
        course: &mut Course<'_>,
    ) -> Result<Response, Failed> {
        let Self { lease, key, is_fresh, clock } = self;
        let waiting = if is_fresh { None } else { acquire(&lease, clock.now()) };
        let is_reused = waiting.is_some();
        let failed = |lease: &Lease, failure: Failure| {
            lease.failed(failure, is_reused, clock);
            if !failure.retry().blames_nobody(is_reused) {
                lease.server.count_failure(failure);
            }
            Failed { failure, is_reused, server: lease.server.clone() }
        };
        let connection = match waiting {
            Some(connection) => connection,
            None => open(&lease).await.map_err(|failure| failed(&lease, failure))?,
        };
        course.connected(is_reused);
        lease.server.count_connection(is_reused);
        let exchange = connection.start(request.to_send(), clock.now(), |output| {
            request.write(output, || lease.upstream.host_of(&lease.server));
        });
        let mut relay = Relay::new(exchange, lease, clock.clone());
        let begun = poll_fn(|cx| relay.poll_response(cx, body)).await;
        let mut begun = begun.map_err(|failure| failed(&relay.lease, failure))?;
        course.responded();
        // Before the gateway adds fields of its own.
        rewrite(request, &mut begun.response);
        let is_complete = begun.is_complete();
        relay.lease.responded(&mut begun.response, is_complete, key, clock);
        Ok(begun.into_response(relay, body.take()))
    }
}

async fn open(lease: &Lease) -> Result<Connection, Failure> {
    Ok(Connection::new(connect_secured(lease).await?, &lease.upstream.config.exchange))
}
