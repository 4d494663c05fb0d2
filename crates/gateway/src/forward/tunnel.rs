//! Connections that have become another protocol: octets both ways until both sides are done.

use thruway_net::{PooledBuffer, Worker};
use thruway_server::{Response, StatusCode};

use super::relay::Relay;
use crate::tunnel::{TunnelConfig, tunnel};
use crate::upstream::Exchange;

/// The answer that makes the client's connection a tunnel to the upstream's.
pub(super) fn open(response: Response, relay: Relay) -> Response {
    let (exchange, lease) = relay.into_exchange();
    let (Some(upstream), Some(worker)) = (exchange.and_then(Exchange::into_tunnel), Worker::current()) else {
        return Response::new(StatusCode::BAD_GATEWAY);
    };
    response.into_tunnel(async move |mut client| {
        let config = TunnelConfig {
            // What the client has sent behind its head comes out of its own end.
            client_early: PooledBuffer::default(),
            server_early: upstream.early,
            idle: lease.upstream.config.tunnel_idle,
            count: |_, _| {},
        };
        tunnel(&mut client, upstream.transport, worker, config).await;
        // The server has had to do with it until now.
        drop(lease);
    })
}
