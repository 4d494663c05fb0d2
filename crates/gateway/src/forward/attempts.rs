//! From a request to its response, at one server or, when that fails, at another.

use std::future::poll_fn;
use std::sync::Arc;

use thruway_client::{Connection, connect};
use thruway_net::{Clock, Worker};
use thruway_server::Response;

use super::relay::Relay;
use super::request::{OutgoingRequest, RequestBody};
use crate::Failure;
use crate::upstream::{Lease, Upstream, acquire};

/// Forwards a request, and sends it again where that is safe: to another server, or to the same on a fresh connection if
/// that had closed one that waited to be used again, which says nothing against it.
pub(super) async fn forward(
    upstream: Arc<Upstream>,
    request: OutgoingRequest,
    mut body: Option<RequestBody>,
) -> Response {
    let mut tried = Vec::new();
    let mut attempt = Attempt::at_any(&upstream, &tried);
    loop {
        let Some(current) = attempt else { return Failure::NoServer.to_response() };
        let place = current.lease.place;
        let Failed { failure, is_reused } = match current.run(&request, &mut body).await {
            Ok(response) => return response,
            Err(failed) => failed,
        };
        tracing::debug!(upstream = upstream.name(), place, %failure, "a request could not be forwarded");
        // What of the content has been taken is not kept.
        let is_whole = body.as_ref().is_none_or(|body| body.is_untouched);
        if !is_whole || !failure.retry().allows(request.is_idempotent) {
            return failure.to_response();
        }
        if failure.retry().blames_nobody(is_reused) {
            attempt = Some(Attempt::on_fresh_connection(&upstream, place));
        } else if tried.len() < upstream.config.retries_max as usize {
            tried.push(place);
            attempt = Attempt::at_any(&upstream, &tried);
        } else {
            return failure.to_response();
        }
    }
}

/// One try at one server.
struct Attempt {
    lease: Lease,
    is_fresh: bool,
}

/// What went wrong, and whether the connection had been used before.
struct Failed {
    failure: Failure,
    is_reused: bool,
}

impl Attempt {
    /// At the server that is next, none of those `tried` if there is another.
    fn at_any(upstream: &Arc<Upstream>, tried: &[usize]) -> Option<Self> {
        Some(Self { lease: Lease::new(upstream.clone(), upstream.select(tried)?), is_fresh: false })
    }

    fn on_fresh_connection(upstream: &Arc<Upstream>, place: usize) -> Self {
        Self { lease: Lease::new(upstream.clone(), place), is_fresh: true }
    }

    async fn run(
        self,
        request: &OutgoingRequest,
        body: &mut Option<RequestBody>,
    ) -> Result<Response, Failed> {
        let Self { lease, is_fresh } = self;
        let clock = Worker::current().map_or_else(Clock::system, |worker| worker.clock().clone());
        let waiting = if is_fresh { None } else { acquire(&lease.upstream, lease.place, clock.now()) };
        let is_reused = waiting.is_some();
        let connection = match waiting {
            Some(connection) => connection,
            None => open(&lease).await.map_err(|failure| Failed { failure, is_reused })?,
        };
        let exchange = connection.start(request.to_send(), clock.now(), |output| request.write(output));
        let mut relay = Relay::new(exchange, lease, clock);
        let begun = poll_fn(|cx| relay.poll_response(cx, body)).await;
        let begun = begun.map_err(|failure| Failed { failure, is_reused })?;
        Ok(begun.into_response(relay, body.take()))
    }
}

async fn open(lease: &Lease) -> Result<Connection, Failure> {
    let config = &lease.upstream.config;
    let stream = connect(&lease.server().address, config.connect_timeout).await?;
    Ok(Connection::new(stream, &config.exchange))
}
