//! Connections that have become another protocol: octets both ways until both sides are done.

use thruway_net::{PooledBuffer, Transport};
use thruway_server::{Response, StatusCode, Tunnel};

use super::relay::Relay;
use crate::tunnel::{TunnelConfig, tunnel};
use crate::upstream::{Exchange, ServerSlot, Upgraded};

/// The answer that makes the client's connection a tunnel to the upstream's. Either may be a stream of HTTP/2 instead.
pub(super) fn open(response: Response, relay: Relay) -> Response {
    let (exchange, slot) = relay.into_exchange();
    let Some(upstream) = exchange.and_then(Exchange::into_tunnel) else {
        return Response::new(StatusCode::BAD_GATEWAY);
    };
    response.into_tunnel(async move |mut client| match upstream {
        Upgraded::Http1(upstream) => {
            run(&mut client, upstream.transport, upstream.early, slot).await;
        }
        Upgraded::Http2(stream) => run(&mut client, stream, PooledBuffer::default(), slot).await,
    })
}

/// The server has to do with it until its end.
async fn run(client: &mut Tunnel, server: impl Transport, server_early: PooledBuffer, slot: Box<ServerSlot>) {
    let config = TunnelConfig {
        // What the client has sent behind its head comes out of its own end.
        client_early: PooledBuffer::default(),
        server_early,
        idle: slot.upstream.config.tunnel_idle,
        count: |_, _| {},
    };
    tunnel(client, server, slot.worker.clone(), config).await;
}
