//! Gateways between clients and upstreams that speak HTTP/2, or only one of them.

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

/// An upstream with one server that speaks HTTP/2.
fn only_http2(address: SocketAddr) -> UpstreamConfig {
    UpstreamConfig { http2: Some(Http2Config::default()), ..only(address) }
}
