//! Tests of gateways with HTTP/2 clients, HTTP/2 upstream servers, or both.

mod client;
mod origin;

mod combinations;
mod negotiated;
mod upgrades;
mod limits;
mod failures;

use std::net::SocketAddr;

use thruway_client::http2::Http2Config;
use thruway_gateway::UpstreamConfig;

use crate::gateway::only;

/// An upstream with a single HTTP/2 server.
fn only_http2(address: SocketAddr) -> UpstreamConfig {
    UpstreamConfig { http2: Some(Http2Config::default()), ..only(address) }
}
