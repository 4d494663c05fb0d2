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

/// Forwards a request, and sends it again where that is safe.
pub(super) async fn forward(
    upstream: Arc<Upstream>,
    request: OutgoingRequest,
    mut body: Option<RequestBody>,
) -> Response {
    let mut tried = Vec::new();
    loop {
        let attempt = Attempt::new(&upstream, &tried);
        let (failure, is_reused, place) = match attempt {
            None => (Failure::NoServer, false, None),
            Some(attempt) => {
                let place = attempt.lease.place;
                match attempt.run(&request, &mut body).await {
                    Ok(response) => return response,
                    Err((failure, is_reused)) => (failure, is_reused, Some(place)),
                }
            }
        };
        tracing::debug!(upstream = upstream.name(), ?place, %failure, "a request could not be forwarded");
        // What of the content has been taken is not kept.
        let is_whole = body.as_ref().is_none_or(|body| body.is_untouched);
        let may_be_repeated = is_whole && failure.retry().allows(request.is_idempotent, is_reused);
        let Some(place) =
            place.filter(|_| may_be_repeated && tried.len() < upstream.config.retries_max as usize)
        else {
            return failure.to_response();
        };
        tried.push(place);
    }
}

/// One try at one server.
struct Attempt {
    lease: Lease,
    clock: Clock,
}

impl Attempt {
    fn new(upstream: &Arc<Upstream>, tried: &[usize]) -> Option<Self> {
        let lease = Lease::new(upstream.clone(), upstream.select(tried)?);
        let clock = Worker::current().map_or_else(Clock::system, |worker| worker.clock().clone());
        Some(Self { lease, clock })
    }

    /// The response; or what went wrong, and whether the connection had been used before.
    async fn run(
        self,
        request: &OutgoingRequest,
        body: &mut Option<RequestBody>,
    ) -> Result<Response, (Failure, bool)> {
        let Self { lease, clock } = self;
        let waiting = acquire(&lease.upstream, lease.place, clock.now());
        let is_reused = waiting.is_some();
        let connection = match waiting {
            Some(connection) => connection,
            None => open(&lease).await.map_err(|failure| (failure, false))?,
        };
        let exchange = connection.start(request.to_send(), clock.now(), |output| request.write(output));
        let mut relay = Relay::new(exchange, lease, clock);
        let begun = poll_fn(|cx| relay.poll_response(cx, body)).await;
        let begun = begun.map_err(|failure| (failure, is_reused))?;
        Ok(begun.into_response(relay, body.take()))
    }
}

async fn open(lease: &Lease) -> Result<Connection, Failure> {
    let config = &lease.upstream.config;
    let stream = connect(&lease.server().address, config.connect_timeout).await?;
    Ok(Connection::new(stream, &config.exchange))
}
