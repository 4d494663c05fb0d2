//! Load balancing methods in the config, and the hashes of request keys. The module `balance_methods`
//! implements the methods.

use std::net::IpAddr;

use thruway_net::ClientAddr;
use thruway_server::Request;

/// The load balancing method of an upstream.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Balance {
    /// Selects the servers in turn. A server with twice the weight gets twice as many requests, which are
    /// spread evenly.
    #[default]
    RoundRobin,
    /// Selects the server with the fewest requests in flight relative to its weight.
    LeastConnections,
    /// Draws two servers at random, in proportion to their weights, and selects the server with fewer
    /// requests in flight relative to its weight. The load is nearly as even as with
    /// [`LeastConnections`](Self::LeastConnections). This method needs less time, because it compares only
    /// two servers. If there are several gateways, they do not all choose the same server.
    RandomOfTwo,
    /// Draws two servers at random, and selects the server that probably responds faster. The method compares
    /// the requests in flight and a moving average of the response times. Failures count as slow responses.
    /// If a server responds 503 with `Retry-After`, the server gets no requests for the requested time, at
    /// most 10 s.
    PeakEwma,
    /// Sends requests with the same key to the same server, unless the server is unavailable or overloaded.
    /// If a server is removed, only its keys move to other servers.
    Hash {
        /// The property that is the key. For a request without a key, the method is the same as
        /// [`RandomOfTwo`](Self::RandomOfTwo).
        by: HashBy,
        /// Maximum load of a server, in percent of its share of all requests in flight. If a server has
        /// reached this load, another server gets the request. The value must be at least 100. Lower values
        /// spread requests more evenly. With higher values, more requests go to the server of their key.
        /// Default 125.
        load_max_percent: u32,
    },
}

impl Balance {
    /// Returns [`Balance::Hash`] with the key `by` and the default maximum load.
    pub const fn hash(by: HashBy) -> Self {
        Self::Hash { by, load_max_percent: 125 }
    }

    /// Returns the property that is the key, if the method uses keys.
    pub const fn hash_by(&self) -> Option<&HashBy> {
        match self {
            Self::Hash { by, .. } => Some(by),
            _ => None,
        }
    }
}

/// The property of a request that is its key. Requests with the same key go to the same server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HashBy {
    /// The client's IP address, or the address that a trusted proxy names.
    ClientAddress,
    /// The value of the cookie with this name.
    Cookie(String),
    /// The value of the header with this name.
    Field(String),
    /// The path of the request, without the query.
    Path,
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

pub(crate) fn hash_of_client(client: ClientAddr) -> u64 {
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

/// Returns the FNV-1a hash of `bytes`. The hash is the same in every process, so that several gateways select
/// the same server for a key. Clients can choose many keys that all select one server, but the maximum load
/// protects this server.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Mixes the bits of a number, so that similar numbers have very different results. This function is the last
/// step of the random number generator `SplitMix64`.
pub(crate) const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_fnv1a() {
        assert_eq!(hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
