//! From a request to its response, at one server or, when that fails, at another.

use std::future::poll_fn;
use std::sync::Arc;

use thruway_client::{Connection, connect};
use thruway_net::{Clock, Worker};
use thruway_server::Response;

use super::relay::Relay;
use super::request::{OutgoingRequest, RequestBody};
use crate::Failure;
use crate::upstream::{Lease, RequestKey, Upstream, acquire};

/// Forwards a request, and sends it again where that is safe.
pub(super) async fn forward(
    upstream: Arc<Upstream>,
    key: RequestKey,
    request: OutgoingRequest,
    mut body: Option<RequestBody>,
) -> Response {
    let clock = Worker::current().map_or_else(Clock::system, |worker| worker.clock().clone());
    let mut tried = Vec::new();
    loop {
        let Some(lease) = upstream.lease(key, &tried, &clock) else {
            return Failure::NoServer.to_response();
        };
        let server = lease.server().number;
        let attempt = Attempt { lease, key, clock: &clock };
        let (failure, is_reused) = match attempt.run(&request, &mut body).await {
            Ok(response) => return response,
            Err(failed) => failed,
        };
        tracing::debug!(upstream = upstream.name(), server, %failure, "a request could not be forwarded");
        // What of the content has been taken is not kept.
        let is_whole = body.as_ref().is_none_or(|body| body.is_untouched);
        let may_be_repeated = is_whole && failure.retry().allows(request.is_idempotent, is_reused);
        if !may_be_repeated || tried.len() >= upstream.config.retries_max as usize {
            return failure.to_response();
        }
        tried.push(server);
    }
}

/// One try at one server.
struct Attempt<'c> {
    lease: Lease,
    key: RequestKey,
    clock: &'c Clock,
}

impl Attempt<'_> {
    /// The response; or what went wrong, and whether the connection had been used before.
    async fn run(
        self,
        request: &OutgoingRequest,
        body: &mut Option<RequestBody>,
    ) -> Result<Response, (Failure, bool)> {
        let Self { lease, key, clock } = self;
        let waiting = acquire(&lease, clock.now());
        let is_reused = waiting.is_some();
        let connection = match waiting {
            Some(connection) => connection,
            None => open(&lease).await.map_err(|failure| {
                lease.failed(failure, is_reused, clock);
                (failure, is_reused)
            })?,
        };
        let exchange = connection.start(request.to_send(), clock.now(), |output| request.write(output));
        let mut relay = Relay::new(exchange, lease, clock.clone());
        match poll_fn(|cx| relay.poll_response(cx, body)).await {
            Ok(mut begun) => {
                relay.lease.responded(&mut begun.response, key, clock);
                Ok(begun.into_response(relay, body.take()))
            }
            Err(failure) => {
                relay.lease.failed(failure, is_reused, clock);
                Err((failure, is_reused))
            }
        }
    }
}

async fn open(lease: &Lease) -> Result<Connection, Failure> {
    let config = &lease.upstream.config;
    let stream = connect(&lease.server().address, config.connect_timeout).await?;
    Ok(Connection::new(stream, &config.exchange))
}
