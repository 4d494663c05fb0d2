//! Opens a tunnel to the destination of a CONNECT request.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thruway_client::{ConnectError, Resolve, UpstreamAddr, connect_any};
use thruway_net::{Clock, PooledBuffer, Stream, Worker};
use thruway_server::{Forwarded, Response};
use thruway_telemetry::{AttemptDetail, AttemptTarget, RequestTrace, SpanId, StepDetail};
use tokio::time::timeout;

use super::config::{ConnectConfig, Destination};
use crate::Failure;
use crate::tunnel::{TunnelConfig, tunnel};

/// The settings of a tunnel, and the trace of its request.
pub(super) struct Opening {
    pub(super) config: Arc<ConnectConfig>,
    pub(super) resolver: Arc<dyn Resolve>,
    pub(super) is_recorded: bool,
    /// `None` if tracing is off.
    pub(super) trace: Option<Rc<RequestTrace>>,
}

/// Opens a tunnel to `destination`, and returns the response to the client.
pub(super) async fn open(opening: Opening, destination: Destination, worker: Rc<Worker>) -> Response {
    let Opening { config, resolver, is_recorded, trace } = opening;
    let since = worker.clock().now_exact();
    let attempt = trace.as_ref().map(|trace| begin_attempt(trace, &destination, since));
    let outcome = reach(&config, &*resolver, &destination, worker.clock()).await;
    if let Some((trace, attempt)) = trace.as_ref().zip(attempt) {
        end_connect(trace, attempt, since, worker.clock().now_exact(), outcome.as_ref().err().copied());
    }
    let forwarded = is_recorded.then(|| {
        let (server, failure) = match &outcome {
            Ok((_, address)) => (address.to_string(), None),
            Err(failure) => {
                (format!("{}:{}", destination.host, destination.port), Some(failure.proxy_error()))
            }
        };
        let took = worker.clock().now_exact().saturating_sub(since);
        let connect = outcome.is_ok().then_some(took);
        Box::new(Forwarded { server: Some(server.into()), connect, failure, ..Forwarded::to(CONNECT.into()) })
    });
    let mut response = match outcome {
        Ok((stream, _)) => {
            let idle = config.idle;
            Response::tunnel(async move |mut client| {
                let config = TunnelConfig {
                    client_early: PooledBuffer::default(),
                    server_early: PooledBuffer::default(),
                    idle,
                    count: |_, _| {},
                };
                tunnel(&mut client, stream, worker, config).await;
            })
        }
        Err(failure) => {
            tracing::debug!(host = %destination.host.escape_debug(), port = destination.port, %failure, "CONNECT failed");
            failure.to_response()
        }
    };
    if let Some(forwarded) = forwarded {
        response.set_forwarded(forwarded);
    }
    response
}

/// Begins the span of a tunnel. It ends together with the request, unless the connection fails.
fn begin_attempt(trace: &RequestTrace, destination: &Destination, since: Duration) -> SpanId {
    trace.set_routed(since);
    let server = format!("{}:{}", destination.host, destination.port);
    let target = AttemptTarget::new(CONNECT, &server, "http").into();
    let detail = AttemptDetail { target, retries: 0, status: None, first_byte: None, error: None };
    trace.begin(StepDetail::Attempt(detail), None, since)
}

/// Adds the time in which the tunnel opened its connection, and the failure, if any.
fn end_connect(
    trace: &RequestTrace,
    attempt: SpanId,
    since: Duration,
    now: Duration,
    failure: Option<Failure>,
) {
    trace.add_completed(StepDetail::Connect, Some(attempt), since, now);
    let Some(failure) = failure else { return };
    trace.fail(failure.proxy_error());
    trace.change(attempt, |step| {
        step.end = Some(now);
        if let StepDetail::Attempt(detail) = &mut step.detail {
            detail.error = Some(failure.proxy_error());
        }
    });
}

/// Resolves the host of `destination`, and connects to one of its addresses that tunnels may reach.
async fn reach(
    config: &ConnectConfig,
    resolver: &dyn Resolve,
    destination: &Destination,
    clock: &Clock,
) -> Result<(Stream, UpstreamAddr), Failure> {
    let end = clock.now_exact() + config.connect_timeout;
    let resolving = resolver.resolve(&destination.host, destination.port);
    let addresses = match timeout(config.connect_timeout, resolving).await {
        Ok(Ok(addresses)) if !addresses.is_empty() => addresses,
        Ok(Ok(_)) => return Err(Failure::NameUnresolved),
        Ok(Err(error)) => return Err(unresolved(&error)),
        Err(_) => return Err(Failure::Connect(ConnectError::TimedOut)),
    };
    // The tunnel connects to an address that was checked, because a second DNS lookup could return another
    // address.
    let reachable: Vec<_> = addresses.into_iter().filter(|address| config.may_reach(address)).collect();
    if reachable.is_empty() {
        return Err(Failure::AddressRefused);
    }
    let left = end.saturating_sub(clock.now_exact()).max(Duration::from_millis(1));
    match connect_any(&reachable, left).await {
        Ok((stream, address)) => Ok((stream, address.clone())),
        Err(failures) => {
            let last = failures.iter().last().map(|(_, error)| error);
            Err(last.map_or(Failure::NameUnresolved, Failure::Connect))
        }
    }
}

fn unresolved(error: &io::Error) -> Failure {
    tracing::debug!(%error, "CONNECT: DNS lookup failed");
    if error.kind() == io::ErrorKind::NotFound { Failure::NameUnresolved } else { Failure::NameNotLookedUp }
}

/// Text that access logs contain in place of an upstream name, because a CONNECT tunnel has no upstream.
const CONNECT: &str = "connect";
