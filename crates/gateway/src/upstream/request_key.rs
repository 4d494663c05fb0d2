//! The properties of a request that determine its server and its connection: the hash of its key, its sticky
//! cookie, and its PROXY header. A connection with a PROXY header belongs to one client, so only requests of
//! this client may use it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use thruway_net::{ClientAddr, ProxyHeader};
use thruway_server::{ConnectionInfo, Request};

use super::config::UpstreamConfig;
use super::selection::balance_config::{HashBy, hash_of_client};

/// Properties of a request that determine its server and its connection.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct RequestKey {
    /// Hash of the request's key. Requests with the same hash go to the same server if the server is
    /// available. `None` if the request has no key.
    pub(crate) hash: Option<u64>,
    /// The token in the sticky cookie, which identifies a server. `None` if the request has no sticky
    /// cookie.
    pub(crate) sticky: Option<u64>,
    /// `true` if the client uses `https`.
    pub(crate) is_https: bool,
    /// The PROXY header for the server. `None` if the upstream does not use the PROXY protocol.
    pub(crate) proxied: Option<Arc<ProxyHeader>>,
}

impl RequestKey {
    /// Returns the key of `request`. Reads only the properties that the config of the upstream uses.
    pub(crate) fn new(config: &UpstreamConfig, request: &Request<'_>) -> Self {
        Self {
            hash: config.balance.hash_by().and_then(|by| by.hash(request)),
            sticky: config.sticky.as_ref().and_then(|sticky| sticky.token_in(request)),
            is_https: config.sticky.is_some() && request.scheme() == "https",
            proxied: config.proxy_protocol.map(|_| Arc::new(proxied(request.connection()))),
        }
    }
}

/// Returns the PROXY header for `connection`. If the destination is unknown, the header contains the
/// address 0.0.0.0 and the port 0.
fn proxied(connection: &ConnectionInfo) -> ProxyHeader {
    match connection.client {
        ClientAddr::Unix => ProxyHeader::Unix,
        ClientAddr::Tcp(source) => {
            let unspecified = || SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
            ProxyHeader::Tcp { source, destination: connection.destination.unwrap_or_else(unspecified) }
        }
    }
}

impl RequestKey {
    /// Returns the key of a TCP connection. This key does not depend on the transferred bytes.
    pub(crate) fn of_connection(config: &UpstreamConfig, connection: &ConnectionInfo) -> Self {
        let is_hashed = config.balance.hash_by() == Some(&HashBy::ClientAddress);
        Self {
            hash: is_hashed.then(|| hash_of_client(connection.client)),
            sticky: None,
            is_https: false,
            proxied: config.proxy_protocol.map(|_| Arc::new(proxied(connection))),
        }
    }
}
