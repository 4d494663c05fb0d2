//! Opens a tunnel to the destination of a CONNECT request.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thruway_client::{ConnectError, Resolve, UpstreamAddr, connect_any};
use thruway_net::{Clock, PooledBuffer, Stream, Worker};
use thruway_server::{Forwarded, Response};
use tokio::time::timeout;

use super::config::{ConnectConfig, Destination};
use crate::Failure;
use crate::tunnel::{TunnelConfig, tunnel};

/// Opens a tunnel to `destination`, and returns the response to the client.
pub(super) async fn open(
    config: Arc<ConnectConfig>,
    resolver: Arc<dyn Resolve>,
    is_recorded: bool,
    destination: Destination,
    worker: Rc<Worker>,
) -> Response {
    let since = worker.clock().now_exact();
    let outcome = reach(&config, &*resolver, &destination, worker.clock()).await;
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
