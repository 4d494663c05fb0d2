//! What of a request decides which server it goes to.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use thruway_net::{ClientAddr, ProxyHeader};
use thruway_server::{ConnectionInfo, Request};

use crate::upstream::Upstream;

/// What requests have in common that go to the same server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HashBy {
    /// The client's IP address: that of the other end of the connection, or the one that a trusted proxy says.
    ClientAddress,
    /// The cookie of this name.
    Cookie(String),
    /// The field of this name.
    Field(String),
    /// The path, without the query.
    Path,
}

/// What decides which server a request goes to, besides how the servers are doing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct RequestKey {
    /// Requests with the same hash go to the same server; `None` if the request does not have what is looked at.
    pub(crate) hash: Option<u64>,
    /// The server that a sticky cookie names.
    pub(crate) sticky: Option<u64>,
    /// `true` if the client uses `https`.
    pub(crate) is_https: bool,
    /// What the server is told about the client; `None` if it is told nothing.
    pub(crate) proxied: Option<Arc<ProxyHeader>>,
}

impl RequestKey {
    /// The key of `request` for `upstream`. Looks at nothing that the upstream does not want to know.
    pub(crate) fn new(upstream: &Upstream, request: &Request<'_>) -> Self {
        let config = &upstream.config;
        Self {
            hash: config.balance.hash_by().and_then(|by| by.hash(request)),
            sticky: config.sticky.as_ref().and_then(|sticky| sticky.token_in(request)),
            is_https: config.sticky.is_some() && request.scheme() == "https",
            proxied: config.proxy_protocol.map(|_| Arc::new(proxied(request.connection()))),
        }
    }
}

/// What a PROXY header says of `connection`. Where the client has connected to is not always known; it is left open then.
fn proxied(connection: &ConnectionInfo) -> ProxyHeader {
    match connection.client {
        ClientAddr::Unix => ProxyHeader::Unix,
        ClientAddr::Tcp(source) => {
            let nowhere = || SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
            ProxyHeader::Tcp { source, destination: connection.destination.unwrap_or_else(nowhere) }
        }
    }
}

impl RequestKey {
    /// The key of a connection of which nothing is understood.
    pub(crate) fn of_connection(upstream: &Upstream, connection: &ConnectionInfo) -> Self {
        let config = &upstream.config;
        let is_hashed = config.balance.hash_by() == Some(&HashBy::ClientAddress);
        Self {
            hash: is_hashed.then(|| hash_of_client(connection.client)),
            sticky: None,
            is_https: false,
            proxied: config.proxy_protocol.map(|_| Arc::new(proxied(connection))),
        }
    }
}

impl HashBy {
    pub(crate) fn hash(&self, request: &Request<'_>) -> Option<u64> {
        match self {
            Self::ClientAddress => Some(hash_of_client(request.client())),
            Self::Cookie(name) => Some(hash(request.cookie(name)?.value().as_bytes())),
            Self::Field(name) => Some(hash(request.field(name)?.as_bytes())),
            Self::Path => Some(hash(request.path().as_bytes())),
        }
    }
}

fn hash_of_client(client: ClientAddr) -> u64 {
    match client {
        ClientAddr::Tcp(address) => hash_of_address(address.ip()),
        ClientAddr::Unix => 0,
    }
}

fn hash_of_address(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => hash(&address.octets()),
        IpAddr::V6(address) => hash(&address.octets()),
    }
}

/// FNV-1a: the same in every process, so that several gateways agree. Clients may choose what is hashed: that all of it
/// falls to one server is what the bound on a server's load is for.
pub(crate) fn hash(octets: &[u8]) -> u64 {
    let step = |hash: u64, octet: &u8| (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3);
    octets.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_fnv_in_every_process() {
        assert_eq!(hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
