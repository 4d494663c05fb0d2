//! Balancing methods of the config, and the hashes of request keys. `balance_methods` implements them.

use std::net::IpAddr;

use thruway_net::ClientAddr;
use thruway_server::Request;

/// Balancing method.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Balance {
    /// The servers in turn, each as often as its weight, evenly spread.
    #[default]
    RoundRobin,
    /// The server with the fewest requests in flight relative to its weight.
    LeastConnections,
    /// The server with fewer requests in flight, relative to its weight, of two that are drawn at random by
    /// weight. Nearly as even as [`LeastConnections`](Self::LeastConnections). It checks only two servers,
    /// and several gateways do not all choose the same one.
    RandomOfTwo,
    /// The faster one of two servers that are drawn at random: by a moving average of its response times, in
    /// which failures count as slow, and by its requests in flight. A server that responds 503 with
    /// `Retry-After` gets no requests for that time, for at most 10 s.
    PeakEwma,
    /// Requests with the same key go to the same server, unless it is unavailable or overloaded. If a server
    /// is removed, only its keys move.
    Hash {
        /// The key. Requests without it go to one of two servers, as with [`RandomOfTwo`](Self::RandomOfTwo).
        by: HashBy,
        /// Maximum load of a server in percent of its share of all requests in flight. Beyond it, the next
        /// server gets the request. At least 100; lower values spread more evenly, higher ones keep keys
        /// together. Default 125.
        load_max_percent: u32,
    },
}

impl Balance {
    /// Returns hashing of `by` with the default load limit.
    pub const fn hash(by: HashBy) -> Self {
        Self::Hash { by, load_max_percent: 125 }
    }

    /// Returns the hashed key, if any.
    pub const fn hash_by(&self) -> Option<&HashBy> {
        match self {
            Self::Hash { by, .. } => Some(by),
            _ => None,
        }
    }
}

/// Key of requests that go to the same server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HashBy {
    /// The client's IP address, or the address that a trusted proxy names.
    ClientAddress,
    /// The cookie of this name.
    Cookie(String),
    /// The header of this name.
    Field(String),
    /// The path, without the query.
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

/// FNV-1a, which is the same in every process, so that several gateways agree. Clients can choose keys that
/// all lead to one server; the load limit protects that server.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Mixes the bits of a number, so that similar numbers differ in all bits (the last step of `SplitMix64`).
pub(crate) const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
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
