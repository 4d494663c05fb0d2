//! URLs of servers: what may be asked, and what belongs together.

use std::fmt;
use std::net::IpAddr;

use thruway_message::Authority;
use thruway_net::{carried_by, is_public};

/// Whether a segment leads elsewhere than it stands: a URL below another must be there for whoever resolves it, too.
fn is_dots(segment: &str) -> bool {
    matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

/// An absolute URL of HTTP, without user information and without a fragment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct HttpUrl {
    text: String,
    /// Where the authority begins, and the path.
    authority_start: usize,
    path_start: usize,
}

impl HttpUrl {
    /// Reads a URL; `None` if it is not one that a request can be sent to as it stands. A fragment is not accepted: no identifier
    /// of a server has one (RFC 8414 §2, RFC 9728 §1.2).
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_clean =
            text.bytes().all(|octet| octet.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(&octet));
        if !is_clean || text.len() > URL_BYTES_MAX {
            return None;
        }
        let (scheme, rest) = text.split_once("://")?;
        if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return None;
        }
        let authority_start = text.len() - rest.len();
        let path_start = rest.find(['/', '?']).map_or(text.len(), |length| authority_start + length);
        let authority = Authority::parse(&text.as_bytes()[authority_start..path_start]).ok()?;
        let url = Self { text: text.to_owned(), authority_start, path_start };
        (!authority.host().is_empty() && !url.path().split('/').any(is_dots)).then_some(url)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Scheme and authority, as they are written.
    pub(super) fn origin(&self) -> &str {
        &self.text[..self.path_start]
    }

    /// The path, which may be empty, without the query.
    pub(super) fn path(&self) -> &str {
        let rest = &self.text[self.path_start..];
        rest.split_once('?').map_or(rest, |(path, _)| path)
    }

    /// The query, if there is one.
    fn query(&self) -> Option<&str> {
        self.text[self.path_start..].split_once('?').map(|(_, query)| query)
    }

    /// All but the query.
    pub(super) fn without_query(&self) -> String {
        format!("{}{}", self.origin(), self.path())
    }

    /// `true` if nobody else can read what is sent: the URL is of `https`, or of this machine.
    pub(super) fn is_private(&self) -> bool {
        self.is_https() || self.is_loopback()
    }

    /// `true` if the host is this machine, however the name is resolved. Other names of this machine do not
    /// count, because a DNS server could resolve them to another one: see [`reach`](Self::reach).
    fn is_loopback(&self) -> bool {
        let is_address = self.address().is_some_and(|address| address.to_canonical().is_loopback());
        is_address || self.host().eq_ignore_ascii_case("localhost")
    }

    /// Returns the distance of the host, judged by its name alone: the shortest distance at which some
    /// resolver finds it. Names that a DNS server resolves count as [`Reach::Internet`].
    pub(super) fn reach(&self) -> Reach {
        let host = self.host();
        if let Some(address) = self.address() {
            return Reach::of(address);
        }
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        if let Ok(address) = name.parse() {
            return Reach::of(IpAddr::V4(address));
        }
        // RFC 6761 §6.3.
        let is_localhost = name == "localhost" || name.ends_with(".localhost");
        // Some resolvers take `127.1`, `2130706433` and `0177.0.0.1` for 127.0.0.1.
        let is_ipv4 = name.rsplit('.').next().is_some_and(is_number);
        // A literal of an unknown version (RFC 3986 §3.2.2), or encoded characters.
        let is_unclear = name.contains(['[', '%']);
        if is_localhost || is_ipv4 || is_unclear { Reach::Machine } else { Reach::Internet }
    }

    /// Returns the host, if it is an IP address.
    fn address(&self) -> Option<IpAddr> {
        let host = self.host();
        match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(address) => address.parse().ok().map(IpAddr::V6),
            None => host.parse().ok().map(IpAddr::V4),
        }
    }

    /// Whether scheme, host and port are those of `other` (RFC 6454 §5).
    pub(super) fn has_origin_of(&self, other: &Self) -> bool {
        self.is_https() == other.is_https()
            && self.port() == other.port()
            && self.host().eq_ignore_ascii_case(other.host())
    }

    /// `true` if `other` has the same origin, path and query.
    pub(super) fn equals(&self, other: &Self) -> bool {
        self.has_origin_of(other) && self.text[self.path_start..] == other.text[other.path_start..]
    }

    /// `true` if `other` is this URL or, if this URL has no query, a URL below its path with any query.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let path = self.path().trim_end_matches('/');
        let below = other.path().strip_prefix(path);
        let is_below = below.is_some_and(|rest| match self.query() {
            None => rest.is_empty() || rest.starts_with('/'),
            // A query may select a tenant: RFC 9728 §1.2 and §3.3 make it part of the identifier.
            query => matches!(rest, "" | "/") && other.query() == query,
        });
        self.has_origin_of(other) && is_below
    }

    /// What a `Location` of a response of this one names, if it is a URL or a path from the root.
    pub(super) fn join(&self, location: &str) -> Option<Self> {
        let location = location.split_once('#').map_or(location, |(before, _)| before);
        match location.strip_prefix('/') {
            Some(rest) if !rest.starts_with('/') => Self::parse(&format!("{}{location}", self.origin())),
            _ => Self::parse(location),
        }
    }

    /// A document at the root, about what lies at the path of this one (RFC 8414 §3.1, RFC 9728 §3.1).
    pub(super) fn well_known(&self, name: &str) -> Self {
        self.at(&format!("/.well-known/{name}{}", self.path().trim_end_matches('/')))
    }

    /// A document at the root, about all of the origin.
    pub(super) fn well_known_of_origin(&self, name: &str) -> Self {
        self.at(&format!("/.well-known/{name}"))
    }

    /// A document below the path of this one (OpenID Connect Discovery 1.0 §4).
    pub(super) fn well_known_below(&self, name: &str) -> Self {
        self.at(&format!("{}/.well-known/{name}", self.path().trim_end_matches('/')))
    }

    /// The same origin, and another path.
    pub(super) fn at(&self, path: &str) -> Self {
        Self { text: format!("{}{path}", self.origin()), ..*self }
    }

    fn is_https(&self) -> bool {
        self.text.as_bytes()[4].eq_ignore_ascii_case(&b's')
    }

    fn host(&self) -> &str {
        self.authority().map_or("", |authority| authority.host())
    }

    fn port(&self) -> Option<u16> {
        self.authority()?.port().or(Some(if self.is_https() { 443 } else { 80 }))
    }

    fn authority(&self) -> Option<Authority<'_>> {
        Authority::parse(&self.text.as_bytes()[self.authority_start..self.path_start]).ok()
    }
}

/// Distance of a host from this machine. A server must not name URLs that are nearer than the server itself:
/// it could have the client send requests that a firewall keeps from the server (RFC 9728 §7.7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Reach {
    /// This machine.
    Machine,
    /// A network that is not part of the Internet, such as 192.168.0.0/16.
    Network,
    /// The Internet.
    Internet,
}

impl Reach {
    /// Returns the distance of an address, or of the IPv4 address in it if that is shorter.
    fn of(address: IpAddr) -> Self {
        let address = address.to_canonical();
        let own = match address {
            // The kernel connects to this machine for 0.0.0.0.
            _ if address.is_loopback() || address.is_unspecified() => Self::Machine,
            _ if is_public(address) => Self::Internet,
            _ => Self::Network,
        };
        carried_by(address).map_or(own, |carried| own.min(Self::of(carried.into())))
    }
}

/// `true` if `label` is a number in decimal, octal or hexadecimal digits. No name in DNS ends with one.
fn is_number(label: &str) -> bool {
    match label.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Longer than what anybody calls a server.
const URL_BYTES_MAX: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> HttpUrl {
        HttpUrl::parse(text).unwrap()
    }

    #[test]
    fn what_is_no_url_of_a_server_is_none() {
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

    #[test]
    fn origins_are_compared_as_they_are_meant() {
        let origin = url("https://MCP.example/a");
        assert!(origin.has_origin_of(&url("HTTPS://mcp.example:443/b?c")));
        for other in ["http://mcp.example/", "https://mcp.example:444/", "https://mcp.example.evil/"] {
            assert!(!origin.has_origin_of(&url(other)), "{other}");
        }
    }

    #[test]
    fn this_machine_has_several_names() {
        for text in
            ["http://localhost", "http://127.1.2.3:80/", "http://[::1]/", "http://[::ffff:127.0.0.1]/"]
        {
            assert!(url(text).is_private(), "{text}");
        }
        for text in [
            "http://localhost.evil.example/",
            "http://128.0.0.1/",
            "http://[::2]/",
            "http://127.0.0.1.example/",
            // A DNS server may resolve these to another machine.
            "http://localhost./",
            "http://a.localhost/",
            "http://127.1/",
        ] {
            assert!(!url(text).is_private(), "{text}");
        }
        assert!(url("https://a").is_private());
    }

    /// Only `localhost` and addresses in their usual notation counted as this machine, so a server elsewhere
    /// could have the client send requests to it under another name.
    #[test]
    fn a_host_is_as_near_as_any_resolver_finds_it() {
        for (hosts, reach) in [
            ("localhost LOCALHOST. a.localhost a.Localhost. 127.0.0.1 127.9.9.9. 0.0.0.0", Reach::Machine),
            (
                "127.1 127.0.1 2130706433 0x7f000001 0x7F.1 0177.0.0.1 017700000001 0 1.2.3.4.5 08",
                Reach::Machine,
            ),
            ("a.example.1 300.1.1.1 10.1 0x 127%2e0.0.1 127.0.0.1..", Reach::Machine),
            ("[::1] [::] [::ffff:127.0.0.1] [::ffff:0:0] [::127.0.0.1] [64:ff9b::7f00:1]", Reach::Machine),
            ("[2002:7f00:1::]", Reach::Machine),
            (
                "10.0.0.1 192.168.1.1. 172.16.0.1 172.31.9.9 100.64.0.1 169.254.169.254 224.0.0.1",
                Reach::Network,
            ),
            ("255.255.255.255 [fe80::1] [fec0::1] [fc00::1] [fd12::1] [ff02::1]", Reach::Network),
            ("[::ffff:10.0.0.1] [64:ff9b::a00:1] [64:ff9b:1::1] [2002:c0a8:101::]", Reach::Network),
            (
                "a.example localhost.example notlocalhost 127.0.0.1.example 8.8.8.8 172.32.0.1",
                Reach::Internet,
            ),
            ("100.128.0.1 192.169.0.1 [2606:4700::1] [::ffff:8.8.8.8] 0x.example a1 1a", Reach::Internet),
        ] {
            for host in hosts.split(' ') {
                // A host that cannot be parsed cannot be reached.
                let found =
                    HttpUrl::parse(&format!("https://{host}/")).map_or(Reach::Machine, |url| url.reach());
                assert_eq!(found, reach, "{host}");
            }
        }
    }

    /// Queries were ignored, so a tenant that the query selects could have the client ask for the token of
    /// another tenant.
    #[test]
    fn a_resource_covers_urls_below_its_path() {
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
    fn documents_have_their_places() {
        let issuer = url("https://a.example/tenant/");
        assert_eq!(issuer.well_known("x").as_str(), "https://a.example/.well-known/x/tenant");
        assert_eq!(issuer.well_known_below("x").as_str(), "https://a.example/tenant/.well-known/x");
        assert_eq!(issuer.well_known_of_origin("x").as_str(), "https://a.example/.well-known/x");
        assert_eq!(url("https://a.example").well_known("x").as_str(), "https://a.example/.well-known/x");
    }

    #[test]
    fn a_location_is_followed_from_where_it_was_given() {
        let from = url("https://a.example/b?c");
        assert_eq!(from.join("/d?e#f").unwrap().as_str(), "https://a.example/d?e");
        assert_eq!(from.join("http://b.example/").unwrap().as_str(), "http://b.example/");
        assert_eq!((from.join("//b.example/"), from.join("d")), (None, None));
    }
}
