//! Connections that have become another protocol: octets both ways until both sides are done.

use thruway_server::{Response, StatusCode, Tunnel};
use tokio::io::copy_bidirectional;

use super::relay::Relay;
use crate::upstream::Exchange;

/// The answer that makes the client's connection a tunnel to the upstream's.
pub(super) fn open(response: Response, relay: Relay) -> Response {
    let (exchange, lease) = relay.into_exchange();
    let Some(tunnel) = exchange.and_then(Exchange::into_tunnel) else {
        return Response::new(StatusCode::BAD_GATEWAY);
    };
    let mut upstream = Tunnel::new(Box::new(tunnel.transport), tunnel.early);
    response.into_tunnel(async move |mut client| {
        // Whoever fails has ended the tunnel.
        if let Err(error) = copy_bidirectional(&mut client, &mut upstream).await {
            tracing::debug!(%error, "a tunnel has ended");
        }
        // The server has had to do with it until now.
        drop(lease);
    })
}
