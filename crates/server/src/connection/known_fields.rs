//! Encoded fields of spans of earlier requests. Most requests have a route, a host, a client and a server of an
//! earlier request, so their spans need only copies of these fields.

use std::net::IpAddr;
use std::sync::Arc;

use thruway_net::{ClientAddr, IpText};
use thruway_telemetry::{AttemptTarget, EncodedFields, host_and_port};

/// The encoded fields that the requests of a worker have used last.
#[derive(Default)]
pub(super) struct KnownFields {
    requests: Known<RequestKey, 16>,
    attempts: Known<AttemptKey, 16>,
    hosts: Known<Box<[u8]>, 16>,
    clients: Known<Option<IpAddr>, 64>,
}

/// Attributes with few different values. The key compares the addresses of texts, which is faster than comparing
/// texts. Two equal texts with different addresses need two entries.
pub(super) struct RequestKey {
    pub(super) route: Option<Arc<str>>,
    pub(super) method: &'static str,
    pub(super) scheme: &'static str,
    /// Version of HTTP. `None` without a valid request.
    pub(super) version: Option<&'static str>,
}

/// The server of an attempt, and the method.
struct AttemptKey {
    target: Arc<AttemptTarget>,
    method: &'static str,
}

impl KnownFields {
    /// Returns the name and the attributes of the span of a request. `route` is the route of the request.
    #[inline]
    pub(super) fn of_request(&mut self, route: Option<&Arc<str>>, key: &RequestKey) -> &EncodedFields {
        let slot = route.map_or(0, |route| route.as_ptr().addr() >> 4) ^ key.method.len();
        self.requests.get(slot, |known| known.is_same(route, key), || key.encode(route))
    }

    /// Returns the name and the attributes of the span of an attempt.
    #[inline]
    pub(super) fn of_attempt(&mut self, target: &Arc<AttemptTarget>, method: &'static str) -> &EncodedFields {
        let slot = (Arc::as_ptr(target).addr() >> 4) ^ method.len();
        let is_same =
            |known: &AttemptKey| Arc::ptr_eq(&known.target, target) && is_same_text(known.method, method);
        self.attempts.get(slot, is_same, || {
            let fields = EncodedFields::named(method_in_name(method), None, |attributes| {
                attributes.add("http.request.method", method);
                attributes.add_encoded(target.attributes());
            });
            (AttemptKey { target: target.clone(), method }, fields)
        })
    }

    /// Returns the attributes of the host in a request.
    #[inline]
    pub(super) fn of_host(&mut self, host: &[u8]) -> &EncodedFields {
        let slot = host.len() ^ usize::from(host.first().copied().unwrap_or_default());
        self.hosts.get(slot, |known| **known == *host, || (host.into(), encode_host(host)))
    }

    /// Returns the attribute with the address of a client.
    #[inline]
    pub(super) fn of_client(&mut self, client: ClientAddr) -> &EncodedFields {
        let address = client.ip();
        let slot = match address {
            Some(IpAddr::V4(address)) => address.to_bits().to_le_bytes()[0].into(),
            Some(IpAddr::V6(address)) => address.to_bits().to_le_bytes()[0].into(),
            None => 0,
        };
        self.clients.get(slot, |known| *known == address, || (address, encode_client(address)))
    }
}

impl RequestKey {
    fn is_same(&self, route: Option<&Arc<str>>, other: &Self) -> bool {
        let is_same_route = match (&self.route, route) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        let is_same_version = match (self.version, other.version) {
            (Some(one), Some(other)) => is_same_text(one, other),
            (None, None) => true,
            _ => false,
        };
        is_same_route
            && is_same_version
            && is_same_text(self.method, other.method)
            && is_same_text(self.scheme, other.scheme)
    }

    fn encode(&self, route: Option<&Arc<str>>) -> (Self, EncodedFields) {
        let Self { method, scheme, version, .. } = *self;
        let name = route.map(|route| &**route);
        let fields = EncodedFields::named(method_in_name(method), name, |attributes| {
            attributes.add("http.request.method", method);
            attributes.add("url.scheme", scheme);
            attributes.add_some("network.protocol.version", version);
            attributes.add_some("http.route", name);
        });
        (Self { route: route.cloned(), method, scheme, version }, fields)
    }
}

/// A cache with one entry for each of `N` slots.
struct Known<K, const N: usize>([(Option<K>, EncodedFields); N]);

impl<K, const N: usize> Known<K, N> {
    /// Returns the fields in the slot, if `is_same` returns `true` for their key. Otherwise, replaces them with new
    /// fields.
    #[inline]
    fn get(
        &mut self,
        slot: usize,
        is_same: impl FnOnce(&K) -> bool,
        encode: impl FnOnce() -> (K, EncodedFields),
    ) -> &EncodedFields {
        let (known, fields) = &mut self.0[slot % N];
        if !known.as_ref().is_some_and(is_same) {
            let (key, encoded) = encode();
            (*known, *fields) = (Some(key), encoded);
        }
        fields
    }
}

impl<K, const N: usize> Default for Known<K, N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| (None, EncodedFields::default())))
    }
}

/// Returns the method for the name of a span. The conventions require `HTTP` for unknown methods.
fn method_in_name(method: &str) -> &str {
    if method == "_OTHER" { "HTTP" } else { method }
}

/// Returns `true` if both texts have the same address.
#[inline]
fn is_same_text(one: &'static str, other: &'static str) -> bool {
    std::ptr::eq(one, other)
}

#[cold]
fn encode_host(host: &[u8]) -> EncodedFields {
    let Ok(host) = str::from_utf8(host) else { return EncodedFields::default() };
    let (host, port) = host_and_port(host);
    EncodedFields::attributes(|attributes| {
        attributes.add("server.address", host);
        attributes.add_some("server.port", port);
    })
}

#[cold]
fn encode_client(address: Option<IpAddr>) -> EncodedFields {
    let text = address.map(IpText::from);
    let text = text.as_ref().map_or("unix", IpText::as_str);
    EncodedFields::attributes(|attributes| attributes.add("client.address", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(name: &'static str, value: &str) -> EncodedFields {
        EncodedFields::attributes(|attributes| attributes.add(name, value))
    }

    #[test]
    fn clients_and_hosts_in_the_same_slot_replace_each_other() {
        let mut known = KnownFields::default();
        let client = |text: &str| ClientAddr::Tcp(format!("{text}:1").parse().unwrap());
        for text in ["10.0.0.1", "10.0.1.1", "10.0.0.1", "10.0.0.2"] {
            assert_eq!(*known.of_client(client(text)), encoded("client.address", text));
        }
        assert_eq!(*known.of_client(ClientAddr::Unix), encoded("client.address", "unix"));
        assert_eq!(*known.of_client(client("10.0.0.0")), encoded("client.address", "10.0.0.0"));
        for host in ["aa", "ab", "aa", "b"] {
            assert_eq!(*known.of_host(host.as_bytes()), encoded("server.address", host));
        }
        assert_eq!(*known.of_host(b"\xff"), EncodedFields::default());
    }

    #[test]
    fn routes_methods_and_versions_have_their_own_fields() {
        let mut known = KnownFields::default();
        let (one, other) = (Arc::<str>::from("/a"), Arc::<str>::from("/b"));
        let key = |method, version| RequestKey { route: None, method, scheme: "http", version };
        let keys = || [key("GET", Some("2")), key("PUT", Some("2")), key("GET", None)];
        let mut all = Vec::new();
        for _ in 0..2 {
            for key in keys() {
                for route in [Some(&one), Some(&other), None] {
                    all.push(known.of_request(route, &key).clone());
                }
            }
        }
        assert_eq!(all[..9], all[9..]);
        assert!((1..9).all(|place| !all[..place].contains(&all[place])));
    }
}
