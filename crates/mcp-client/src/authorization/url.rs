//! URLs of servers: validation, origin checks, and well-known locations.

use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;

use thruway_client::Url;
use thruway_net::{carried_by, is_public};

/// `true` if `segment` is `.` or `..`, even if percent-encoded. Other programs might resolve a URL with
/// such a segment differently.
fn is_dots(segment: &str) -> bool {
    matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

/// The URL of an MCP server or an authorization server. This URL may be the identifier of the server, so
/// the rules are stricter than the rules of [`Url`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct HttpUrl(Url);

impl HttpUrl {
    /// Parses a URL. Returns `None` if the URL has a fragment, because server identifiers do not have a
    /// fragment (RFC 8414 §2, RFC 9728 §1.2). Also returns `None` if the URL contains dot segments, or
    /// characters that RFC 3986 forbids. Other programs might parse such a URL differently.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_clean = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(&byte));
        if !is_clean || text.len() > URL_BYTES_MAX {
            return None;
        }
        let url = Url::parse(text).ok()?;
        (!url.path().split('/').any(is_dots)).then_some(Self(url))
    }

    /// Returns the URL without its query.
    pub(super) fn without_query(&self) -> String {
        format!("{}{}", self.origin(), self.path())
    }

    /// `true` if no third party can read the traffic: the URL is `https`, or its host is this machine.
    /// Recognizes only some names of this machine. [`reach`](Self::reach) recognizes more names.
    pub(super) fn is_private(&self) -> bool {
        self.is_protected()
    }

    /// Returns the network scope of the host. Considers only the name of the host, and returns the smallest
    /// scope that any resolver could find for this name. Names that a DNS server resolves count as
    /// [`HostScope::Internet`].
    pub(super) fn reach(&self) -> HostScope {
        let host = self.host();
        if let Some(address) = self.address() {
            return HostScope::of(address);
        }
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        if let Ok(address) = name.parse() {
            return HostScope::of(IpAddr::V4(address));
        }
        // RFC 6761 §6.3 assigns these names to this machine.
        let is_localhost = name == "localhost" || name.ends_with(".localhost");
        // Some resolvers interpret `127.1`, `2130706433` and `0177.0.0.1` as 127.0.0.1.
        let is_ipv4 = name.rsplit('.').next().is_some_and(is_number);
        // An IP literal of an unknown version (RFC 3986 §3.2.2), or a name with percent-encoded characters.
        let is_unclear = name.contains(['[', '%']);
        if is_localhost || is_ipv4 || is_unclear { HostScope::Machine } else { HostScope::Internet }
    }

    /// `true` if `other` has the same origin, path and query.
    pub(super) fn equals(&self, other: &Self) -> bool {
        self.has_origin_of(other) && self.target() == other.target()
    }

    /// `true` if `other` is this URL. If this URL has no query, `other` may also have a longer path and any
    /// query.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let path = self.path().trim_end_matches('/');
        let below = other.path().strip_prefix(path);
        let is_below = below.is_some_and(|rest| match self.query() {
            None => rest.is_empty() || rest.starts_with('/'),
            // A query may select a tenant: RFC 9728 §1.2 and §3.3 make the query a part of the identifier.
            query => matches!(rest, "" | "/") && other.query() == query,
        });
        self.has_origin_of(other) && is_below
    }

    /// Resolves the value of a `Location` header against this URL. Returns `None` unless the value is a URL
    /// or an absolute path.
    pub(super) fn join(&self, location: &str) -> Option<Self> {
        self.0.join(location).ok().and_then(|url| Self::parse(url.as_str()))
    }

    /// Returns the well-known URL in which the path of this URL follows the well-known prefix (RFC 8414
    /// §3.1, RFC 9728 §3.1).
    pub(super) fn well_known(&self, name: &str) -> Self {
        self.at(&format!("/.well-known/{name}{}", self.path().trim_end_matches('/')))
    }

    /// Returns the well-known URL for the origin of this URL, without the path.
    pub(super) fn well_known_of_origin(&self, name: &str) -> Self {
        self.at(&format!("/.well-known/{name}"))
    }

    /// Returns the well-known URL in which the well-known prefix follows the path of this URL (OpenID
    /// Connect Discovery 1.0 §4).
    pub(super) fn well_known_below(&self, name: &str) -> Self {
        self.at(&format!("{}/.well-known/{name}", self.path().trim_end_matches('/')))
    }

    /// Returns the URL with the same origin and the path `path`.
    pub(super) fn at(&self, path: &str) -> Self {
        Self(self.with_target(path).expect("the path consists of parts of valid URLs"))
    }
}

impl Deref for HttpUrl {
    type Target = Url;

    fn deref(&self) -> &Url {
        &self.0
    }
}

/// The network scope of a host, as seen from this machine. A server must not name URLs with a smaller scope
/// than its own scope. Otherwise, the server could make the client send requests to hosts that the server
/// itself cannot reach (RFC 9728 §7.7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum HostScope {
    /// This machine.
    Machine,
    /// A network that is not part of the Internet, such as 192.168.0.0/16.
    Network,
    /// The Internet.
    Internet,
}

impl HostScope {
    /// Returns the scope of `address`. If an IPv6 address contains an IPv4 address, returns the smaller of
    /// the two scopes.
    fn of(address: IpAddr) -> Self {
        let address = address.to_canonical();
        let own = match address {
            // A connection to 0.0.0.0 reaches this machine.
            _ if address.is_loopback() || address.is_unspecified() => Self::Machine,
            _ if is_public(address) => Self::Internet,
            _ => Self::Network,
        };
        carried_by(address).map_or(own, |carried| own.min(Self::of(carried.into())))
    }
}

/// `true` if `label` is a number in decimal, octal or hexadecimal digits. No DNS name ends with such a label.
fn is_number(label: &str) -> bool {
    match label.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Maximum length of a URL in bytes.
const URL_BYTES_MAX: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> HttpUrl {
        HttpUrl::parse(text).unwrap()
    }

    #[test]
    fn invalid_server_urls_are_rejected() {
        for text in [
            "",
            "mcp.example",
            "ftp://a/",
            "javascript:alert(1)",
            "https://a.example/.well-known/x/../../evil",
            "https://a.example/a/%2E%2e/b",
            "https://a.example/./b",
            "file:///etc/passwd",
            "https://",
            "https:///a",
            "https://user@a/",
            "https://a/#b",
            "https://a/b c",
            "https://a\\b/",
            "https://a/\"",
            "https://é/",
        ] {
            assert_eq!(HttpUrl::parse(text), None, "{text}");
        }
        assert_eq!(HttpUrl::parse(&format!("https://a/{}", "b".repeat(URL_BYTES_MAX))), None);
    }

    /// Regression test: only `localhost` and addresses in standard notation counted as this machine. A remote
    /// server could make the client send requests to this machine under another name.
    #[test]
    fn host_scope_is_the_closest_that_any_resolver_may_find() {
        for (hosts, reach) in [
            (
                "localhost LOCALHOST. a.localhost a.Localhost. 127.0.0.1 127.9.9.9. 0.0.0.0",
                HostScope::Machine,
            ),
            (
                "127.1 127.0.1 2130706433 0x7f000001 0x7F.1 0177.0.0.1 017700000001 0 1.2.3.4.5 08",
                HostScope::Machine,
            ),
            ("a.example.1 300.1.1.1 10.1 0x 127%2e0.0.1 127.0.0.1..", HostScope::Machine),
            (
                "[::1] [::] [::ffff:127.0.0.1] [::ffff:0:0] [::127.0.0.1] [64:ff9b::7f00:1]",
                HostScope::Machine,
            ),
            ("[2002:7f00:1::]", HostScope::Machine),
            (
                "10.0.0.1 192.168.1.1. 172.16.0.1 172.31.9.9 100.64.0.1 169.254.169.254 224.0.0.1",
                HostScope::Network,
            ),
            ("255.255.255.255 [fe80::1] [fec0::1] [fc00::1] [fd12::1] [ff02::1]", HostScope::Network),
            ("[::ffff:10.0.0.1] [64:ff9b::a00:1] [64:ff9b:1::1] [2002:c0a8:101::]", HostScope::Network),
            (
                "a.example localhost.example notlocalhost 127.0.0.1.example 8.8.8.8 172.32.0.1",
                HostScope::Internet,
            ),
            ("100.128.0.1 192.169.0.1 [2606:4700::1] [::ffff:8.8.8.8] 0x.example a1 1a", HostScope::Internet),
        ] {
            for host in hosts.split(' ') {
                // A host that cannot be parsed cannot be reached.
                let found =
                    HttpUrl::parse(&format!("https://{host}/")).map_or(HostScope::Machine, |url| url.reach());
                assert_eq!(found, reach, "{host}");
            }
        }
    }

    /// Regression test: queries were ignored. A tenant selected by the query could make the client request
    /// the token of another tenant.
    #[test]
    fn resource_covers_urls_below_its_path() {
        let covers = |resource: &str, server: &str| url(resource).covers(&url(server));
        let server = "https://a.example/b/mcp";
        let parents = ["https://a.example", "https://A.example:443/", "https://a.example/b", server];
        for resource in parents {
            assert!(
                covers(resource, server) && covers(resource, &format!("{server}?tenant=1")),
                "{resource}"
            );
        }
        for resource in ["https://a.example/b/m", "https://a.example/b/mcp/c", "https://b.example"] {
            assert!(!covers(resource, server), "{resource}");
        }
        let tenant = "https://a.example/b/mcp?tenant=1";
        assert!(covers(tenant, tenant) && covers(tenant, "https://a.example/b/mcp/?tenant=1"));
        for other in ["", "?", "?tenant=2", "?tenant=1&x", "?tenant=%31", "/c?tenant=1"] {
            assert!(!covers(tenant, &format!("{server}{other}")), "{other}");
        }
    }

    #[test]
    fn well_known_urls_are_built_from_issuer_and_origin() {
        let issuer = url("https://a.example/tenant/");
        assert_eq!(issuer.well_known("x").as_str(), "https://a.example/.well-known/x/tenant");
        assert_eq!(issuer.well_known_below("x").as_str(), "https://a.example/tenant/.well-known/x");
        assert_eq!(issuer.well_known_of_origin("x").as_str(), "https://a.example/.well-known/x");
        assert_eq!(url("https://a.example").well_known("x").as_str(), "https://a.example/.well-known/x");
    }

    #[test]
    fn redirect_location_is_resolved_against_its_url() {
        let from = url("https://a.example/b?c");
        assert_eq!(from.join("/d?e#f").unwrap().as_str(), "https://a.example/d?e");
        assert_eq!(from.join("http://b.example/").unwrap().as_str(), "http://b.example/");
        assert_eq!((from.join("//b.example/"), from.join("d")), (None, None));
    }
}
