//! Keys that assign requests to groups, so that a policy can count the requests of each group.

use std::fmt::{self, Write as _};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::iter;
use std::net::IpAddr;
use std::sync::Arc;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use thruway_net::ClientAddr;
use thruway_server::Request;

use super::fields::VerifiedClient;

/// The property by which a policy groups requests for counting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CountBy {
    /// All requests together.
    All,
    /// By client address. IPv6 addresses with the same first 64 bits count as one client, because a provider
    /// assigns at least such a network to each customer. All clients of Unix sockets count as one client.
    Address,
    /// By the value of this header. Requests without the header are grouped by client address.
    Header(String),
    /// By the name of the route.
    Route,
    /// By the user that an earlier policy of the route has verified. Requests without a user are grouped by client
    /// address. Needs [`Guarded::identified`](super::Guarded::identified) of the earlier policy.
    User,
}

/// Computes unpredictable keys, so that a client cannot choose the key of another client.
#[derive(Debug)]
pub(super) struct Keys {
    by: CountBy,
    hasher: RandomState,
}

impl Keys {
    pub(super) fn new(by: CountBy) -> Self {
        Self { by, hasher: RandomState::new() }
    }

    /// Returns the key of `request`. `route` is the name of the route. This method allocates no memory.
    pub(super) fn key(&self, request: &Request<'_>, route: &str) -> u64 {
        match &self.by {
            CountBy::Address => self.of_client(request.client()),
            CountBy::Header(name) => self.of_field(request, name),
            CountBy::Route => self.hasher.hash_one(route),
            CountBy::All => 0,
            CountBy::User => self.of_user(request),
        }
    }

    /// Returns the key for the header `name`. If the request has several lines of this header, the key
    /// depends on all lines, because an upstream server may read any of them.
    fn of_field(&self, request: &Request<'_>, name: &str) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        let mut is_there = false;
        for value in request.field_lines().all(name) {
            value.as_bytes().hash(&mut hasher);
            is_there = true;
        }
        if is_there { hasher.finish() } else { self.of_client(request.client()) }
    }

    fn of_user(&self, request: &Request<'_>) -> u64 {
        match user_of(request) {
            Some(user) => self.hasher.hash_one((&*user.policy, user.user.as_deref())),
            None => self.of_client(request.client()),
        }
    }

    /// Returns the key of `request` in the store, which is equal on all replicas.
    pub(super) fn store_key(&self, request: &Request<'_>, route: &str, keys: &StoreKeys) -> StoreKey {
        match &self.by {
            CountBy::All => keys.key(b'*', iter::empty()),
            CountBy::Route => keys.key(b'r', iter::once(route.as_bytes())),
            CountBy::Address => store_key_of_client(request.client(), keys),
            CountBy::Header(name) => {
                let mut values = request.field_lines().all(name).map(|value| value.as_bytes()).peekable();
                match values.peek() {
                    Some(_) => keys.key(b'h', values),
                    None => store_key_of_client(request.client(), keys),
                }
            }
            CountBy::User => match user_of(request) {
                Some(user) => {
                    let name = user.user.as_deref().unwrap_or_default();
                    keys.key(b'u', [user.policy.as_bytes(), name.as_bytes()].into_iter())
                }
                None => store_key_of_client(request.client(), keys),
            },
        }
    }

    fn of_client(&self, client: ClientAddr) -> u64 {
        self.hasher.hash_one(client.ip().map(network_of))
    }
}

/// Returns the verified client, if it has a name.
fn user_of<'r>(request: &'r Request<'_>) -> Option<&'r VerifiedClient> {
    let client = request.extensions().get::<Arc<VerifiedClient>>()?;
    client.user.is_some().then_some(client)
}

fn store_key_of_client(client: ClientAddr, keys: &StoreKeys) -> StoreKey {
    match client.ip().map(network_of) {
        Some((is_v6, network)) => {
            keys.key(b'a', [&[u8::from(is_v6)][..], &network.to_be_bytes()].into_iter())
        }
        None => keys.key(b'a', iter::empty()),
    }
}

/// Returns a pair that identifies the network of a client. The first value is `true` for IPv6. The second
/// value is the IPv4 address, or the first 64 bits of the IPv6 address.
fn network_of(address: IpAddr) -> (bool, u64) {
    match address.to_canonical() {
        IpAddr::V4(address) => (false, u64::from(address.to_bits())),
        IpAddr::V6(address) => (true, u64::try_from(address.to_bits() >> 64).unwrap_or_default()),
    }
}

/// A key that all replicas of a fleet compute equally for the same property of a request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct StoreKey([u8; 16]);

/// Computes [`StoreKey`]s with the secret of the fleet. Without the secret, a reader of the store could find common
/// values, such as addresses, by computing their keys.
#[derive(Clone)]
pub(super) struct StoreKeys(Hmac<Sha256>);

impl StoreKeys {
    pub(super) fn new(secret: &[u8; 32]) -> Self {
        #[expect(clippy::expect_used, reason = "HMAC accepts keys of any length")]
        Self(Hmac::new_from_slice(secret).expect("a key of any length is valid"))
    }

    /// Returns the key for `parts`. `kind` separates values of different properties.
    pub(super) fn key<'p>(&self, kind: u8, parts: impl Iterator<Item = &'p [u8]>) -> StoreKey {
        let mut mac = self.0.clone();
        mac.update(&[kind]);
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        let mut key = [0; 16];
        key.copy_from_slice(&mac.finalize().into_bytes()[..16]);
        // Zero marks an unused entry.
        key[0] |= 1;
        StoreKey(key)
    }
}

impl StoreKey {
    /// Returns `true` unless this is the default value.
    pub(super) const fn is_set(&self) -> bool {
        self.0[0] != 0
    }

    /// Returns the name in the store. `policy` is the name of the policy.
    pub(super) fn name(&self, policy: &str) -> String {
        let mut name = String::with_capacity(policy.len() + 33);
        name.push_str(policy);
        name.push(':');
        for byte in self.0 {
            let _ = write!(name, "{byte:02x}");
        }
        name
    }
}

impl fmt::Display for CountBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => f.write_str("address"),
            Self::Header(name) => write!(f, "header {name}"),
            Self::Route => f.write_str("route"),
            Self::All => f.write_str("all"),
            Self::User => f.write_str("user"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> ClientAddr {
        ClientAddr::Tcp((address.parse::<IpAddr>().unwrap(), 1).into())
    }

    #[test]
    fn addresses_in_one_ipv6_network_share_a_key() {
        let keys = Keys::new(CountBy::Address);
        let key = |address| keys.of_client(client(address));
        assert_eq!(key("2001:db8::1"), key("2001:db8::2:0:0:1"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
        assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
        assert_ne!(key("0.0.0.0"), key("::"));
        assert_ne!(key("0.0.0.0"), keys.of_client(ClientAddr::Unix));
    }

    #[test]
    fn keys_are_unpredictable() {
        let [one, other] = [CountBy::Address, CountBy::Address].map(Keys::new);
        assert_ne!(one.of_client(client("192.0.2.1")), other.of_client(client("192.0.2.1")));
    }
}
