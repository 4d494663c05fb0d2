//! Connections that have become another protocol: octets both ways until both sides are done.

use std::rc::Rc;

use thruway_net::{PooledBuffer, Transport, Worker};
use thruway_server::{Response, StatusCode, Tunnel};

use super::relay::Relay;
use crate::tunnel::{TunnelConfig, tunnel};
use crate::upstream::{Exchange, Lease, Upgraded};

/// The answer that makes the client's connection a tunnel to the upstream's. Either may be a stream of HTTP/2 instead.
pub(super) fn open(response: Response, relay: Relay) -> Response {
    let (exchange, lease) = relay.into_exchange();
    let (Some(upstream), Some(worker)) = (exchange.and_then(Exchange::into_tunnel), Worker::current()) else {
        return Response::new(StatusCode::BAD_GATEWAY);
    };
    response.into_tunnel(async move |mut client| match upstream {
        Upgraded::Http1(upstream) => {
            run(&mut client, upstream.transport, upstream.early, worker, lease).await;
        }
        Upgraded::Http2(stream) => run(&mut client, stream, PooledBuffer::default(), worker, lease).await,
    })
}

/// The server has to do with it until its end.
async fn run(
    client: &mut Tunnel,
    server: impl Transport,
    server_early: PooledBuffer,
    worker: Rc<Worker>,
    lease: Box<Lease>,
) {
    let config = TunnelConfig {
        // What the client has sent behind its head comes out of its own end.
        client_early: PooledBuffer::default(),
        server_early,
        idle: lease.upstream.config.tunnel_idle,
        count: |_, _| {},
    };
    tunnel(client, server, worker, config).await;
}
