//! URLs of servers: what may be asked, and what belongs together.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use thruway_message::Authority;

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

    /// Whether nobody on the way can read what is sent, or there is no way because it ends on this machine.
    pub(super) fn is_private(&self) -> bool {
        self.is_https() || self.is_loopback()
    }

    /// Whether it names this machine.
    pub(super) fn is_loopback(&self) -> bool {
        let host = self.host();
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_ipv6 = address.and_then(|address| address.parse().ok()).is_some_and(|address: Ipv6Addr| {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|address| address.is_loopback())
        });
        is_ipv6
            || host.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
            || host.eq_ignore_ascii_case("localhost")
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
            assert!(url(text).is_loopback() && url(text).is_private(), "{text}");
        }
        for text in [
            "http://localhost.evil.example/",
            "http://128.0.0.1/",
            "http://[::2]/",
            "http://127.0.0.1.example/",
        ] {
            assert!(!url(text).is_loopback() && !url(text).is_private(), "{text}");
        }
        assert!(url("https://a").is_private());
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
