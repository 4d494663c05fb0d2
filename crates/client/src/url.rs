//! URLs of HTTP servers: `https://example.com:8443/path?query`.

use std::fmt;
use std::net::IpAddr;

use thruway_http1::parse_request_target;
use thruway_message::{Authority, Method};

/// An absolute `http` or `https` URL without user information and without a fragment (RFC 9110 §4.2).
///
/// The host is not empty and contains no `%`. An IPv6 address must be in brackets. The path and the query
/// contain only characters that a request target may contain. `Url` keeps them unchanged: it resolves
/// neither dot segments nor percent-encoding.
///
/// ```
/// use thruway_client::Url;
///
/// let url = Url::parse("https://a.example/b?c=d")?;
/// assert_eq!((url.host(), url.port(), url.path(), url.query()), ("a.example", 443, "/b", Some("c=d")));
/// # Ok::<_, thruway_client::InvalidUrl>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Url {
    text: Box<str>,
    parts: UrlParts,
}

/// The parts of a URL.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct UrlParts {
    host_start: usize,
    host_end: usize,
    /// Position of the path, or of the query if the path is missing.
    target_start: usize,
    port: u16,
    is_https: bool,
}

/// The reason that a text is not a valid HTTP URL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidUrl {
    /// The text has a fragment (`#…`).
    FragmentPresent,
    /// No valid host with an optional port follows the scheme. User information (`user@`) is not allowed.
    HostInvalid,
    /// The text does not begin with a scheme and `://`.
    SchemeMissing,
    /// The scheme is neither `http` nor `https`.
    SchemeNotSupported,
    /// The path or the query contains a character that a request target must not contain.
    TargetInvalid,
}

impl Url {
    /// Parses a URL that serves as an identifier. Keeps the text unchanged, and rejects a fragment.
    ///
    /// # Errors
    /// Returns an error if `text` is not a valid `http` or `https` URL, or if it has a fragment.
    pub fn parse(text: &str) -> Result<Self, InvalidUrl> {
        if text.contains('#') {
            return Err(InvalidUrl::FragmentPresent);
        }
        Self::new(text.into(), UrlParts::find(text)?)
    }

    /// Parses a URL for requests. Drops the fragment, which clients do not send (RFC 9110 §4.1). If the
    /// path is empty, inserts a slash, so that [`target`](Self::target) is a valid request target.
    ///
    /// # Errors
    /// Returns an error if `text` is not a valid `http` or `https` URL.
    pub fn for_request(text: &str) -> Result<Self, InvalidUrl> {
        let text = without_fragment(text);
        let parts = UrlParts::find(text)?;
        let (origin, target) = text.split_at(parts.target_start);
        let has_slash = target.starts_with('/');
        let text = if has_slash { text.into() } else { [origin, "/", target].concat().into() };
        Self::new(text, parts)
    }

    fn new(text: Box<str>, parts: UrlParts) -> Result<Self, InvalidUrl> {
        let target = &text[parts.target_start..];
        if is_target(target) { Ok(Self { text, parts }) } else { Err(InvalidUrl::TargetInvalid) }
    }

    /// Returns the whole URL.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the scheme, host and port as written. Compare origins with
    /// [`has_origin_of`](Self::has_origin_of).
    pub fn origin(&self) -> &str {
        &self.text[..self.parts.target_start]
    }

    /// Returns `true` if the scheme is `https`.
    pub const fn is_https(&self) -> bool {
        self.parts.is_https
    }

    /// Returns the host and port as written, for the `Host` field (RFC 9110 §7.2).
    pub fn authority(&self) -> &str {
        &self.text[self.parts.host_start..self.parts.target_start]
    }

    /// Returns the host. An IPv6 address is in brackets.
    pub fn host(&self) -> &str {
        &self.text[self.parts.host_start..self.parts.host_end]
    }

    /// Returns the host without the brackets of an IPv6 address.
    pub fn host_without_brackets(&self) -> &str {
        let host = self.host();
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// Returns the host if the host is an IP address, or `None` if the host is a name.
    pub fn address(&self) -> Option<IpAddr> {
        self.host_without_brackets().parse().ok()
    }

    /// Returns the port. If the URL has no port, returns the default port of the scheme.
    pub const fn port(&self) -> u16 {
        self.parts.port
    }

    /// Returns the path and the query as written.
    pub fn target(&self) -> &str {
        &self.text[self.parts.target_start..]
    }

    /// Returns the path, which may be empty, without the query.
    pub fn path(&self) -> &str {
        self.target().split_once('?').map_or(self.target(), |(path, _)| path)
    }

    /// Returns the query without the question mark, or `None` if the URL has no query.
    pub fn query(&self) -> Option<&str> {
        self.target().split_once('?').map(|(_, query)| query)
    }

    /// Returns `true` if others on the network cannot read or answer requests to the URL. The result is
    /// `true` if the scheme is `https`, or if the host is [this machine](Self::is_loopback).
    pub fn is_protected(&self) -> bool {
        self.is_https() || self.is_loopback()
    }

    /// Returns `true` if the host is `localhost` or a loopback address. Every resolver resolves these
    /// hosts to this machine. Other names of this machine do not count, because a DNS server could
    /// resolve them to another machine.
    pub fn is_loopback(&self) -> bool {
        let is_address = self.address().is_some_and(|address| address.to_canonical().is_loopback());
        is_address || self.host().eq_ignore_ascii_case("localhost")
    }

    /// Returns `true` if the scheme, host and port are equal to those of `other` (RFC 6454 §5).
    pub fn has_origin_of(&self, other: &Self) -> bool {
        self.is_https() == other.is_https()
            && self.port() == other.port()
            && self.host().eq_ignore_ascii_case(other.host())
    }

    /// Returns a URL with the origin of `self`, and with `target` as path and query.
    ///
    /// # Errors
    /// Returns an error if `target` does not begin with a slash, or contains a character that a request
    /// target must not contain.
    pub fn with_target(&self, target: &str) -> Result<Self, InvalidUrl> {
        if !target.starts_with('/') {
            return Err(InvalidUrl::TargetInvalid);
        }
        Self::new([self.origin(), target].concat().into(), self.parts)
    }

    /// Resolves `reference` relative to `self`. For example, `reference` is the `Location` field of a
    /// response. Supports two kinds of references (RFC 3986 §4.2): URLs with a scheme, and paths that
    /// begin with exactly one slash. Drops the fragment of `reference`.
    ///
    /// # Errors
    /// Returns an error if `reference` is another kind of reference, or is not a valid URL.
    pub fn join(&self, reference: &str) -> Result<Self, InvalidUrl> {
        let reference = without_fragment(reference);
        if reference.starts_with('/') && !reference.starts_with("//") {
            self.with_target(reference)
        } else {
            Self::parse(reference)
        }
    }
}

impl UrlParts {
    /// Finds the parts of the URL `text`. Does not check the path and the query.
    fn find(text: &str) -> Result<Self, InvalidUrl> {
        let (scheme, rest) = text.split_once(':').ok_or(InvalidUrl::SchemeMissing)?;
        let rest = rest.strip_prefix("//").ok_or(InvalidUrl::SchemeMissing)?;
        let is_https = match scheme {
            _ if scheme.eq_ignore_ascii_case("https") => true,
            _ if scheme.eq_ignore_ascii_case("http") => false,
            _ => return Err(InvalidUrl::SchemeNotSupported),
        };
        let host_start = text.len() - rest.len();
        let length = text[host_start..].find(['/', '?']);
        let target_start = length.map_or(text.len(), |length| host_start + length);
        let authority = Authority::parse(&text.as_bytes()[host_start..target_start])
            .map_err(|_| InvalidUrl::HostInvalid)?;
        if authority.host().is_empty() {
            // RFC 9110 §4.2.1 and §4.2.2 forbid an empty host.
            return Err(InvalidUrl::HostInvalid);
        }
        Ok(Self {
            host_start,
            host_end: host_start + authority.host().len(),
            target_start,
            port: authority.port().unwrap_or(if is_https { 443 } else { 80 }),
            is_https,
        })
    }
}

fn without_fragment(text: &str) -> &str {
    text.split_once('#').map_or(text, |(before, _)| before)
}

/// Returns `true` if `target` is a valid path and query. If `target` does not begin with a slash, checks
/// `target` with a slash in front.
fn is_target(target: &str) -> bool {
    let is_sent = |target: &str| parse_request_target(Method::Get, target.as_bytes()).is_ok();
    match target.as_bytes().first() {
        None => true,
        Some(b'/') => is_sent(target),
        Some(_) => is_sent(&["/", target].concat()),
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for InvalidUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FragmentPresent => "the URL has a fragment",
            Self::HostInvalid => "the URL has no valid host",
            Self::SchemeMissing => "the URL has no scheme",
            Self::SchemeNotSupported => "the scheme of the URL is neither `http` nor `https`",
            Self::TargetInvalid => "the path or query of the URL contains an invalid character",
        })
    }
}

impl std::error::Error for InvalidUrl {}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn url_is_parsed_into_its_parts() {
        for (text, host, port, path, query) in [
            ("http://a.example", "a.example", 80, "", None),
            ("HTTP://a.example:81/b?c", "a.example", 81, "/b", Some("c")),
            ("http://[::1]:82?q=/", "[::1]", 82, "", Some("q=/")),
            ("https://a:?", "a", 443, "", Some("")),
            ("https://[v1.a:b]/%2e/../c", "[v1.a:b]", 443, "/%2e/../c", None),
        ] {
            let url = url(text);
            assert_eq!(
                (url.host(), url.port(), url.path(), url.query()),
                (host, port, path, query),
                "{text}"
            );
            assert_eq!(url.is_https(), text.starts_with("https:"), "{text}");
            assert_eq!(format!("{}{}", url.origin(), url.target()), text);
            assert_eq!(url.origin().split_once("://").unwrap().1, url.authority(), "{text}");
            assert_eq!((url.as_str(), &*url.to_string()), (text, text));
        }
    }

    #[test]
    fn invalid_urls_are_rejected_with_the_reason() {
        for (text, error) in [
            ("", InvalidUrl::SchemeMissing),
            ("a.example:80/", InvalidUrl::SchemeMissing),
            ("/path", InvalidUrl::SchemeMissing),
            ("javascript:alert(1)", InvalidUrl::SchemeMissing),
            ("a.example:80/http://b/", InvalidUrl::SchemeMissing),
            ("ftp://a/", InvalidUrl::SchemeNotSupported),
            ("file:///etc/passwd", InvalidUrl::SchemeNotSupported),
            ("http s://a/", InvalidUrl::SchemeNotSupported),
            ("://a/", InvalidUrl::SchemeNotSupported),
            ("http://", InvalidUrl::HostInvalid),
            ("http:///a", InvalidUrl::HostInvalid),
            ("http://?a", InvalidUrl::HostInvalid),
            ("http://:80/", InvalidUrl::HostInvalid),
            ("http://user@a/", InvalidUrl::HostInvalid),
            ("http://user:password@a/", InvalidUrl::HostInvalid),
            ("http://a b/", InvalidUrl::HostInvalid),
            ("http://a\\b/", InvalidUrl::HostInvalid),
            ("http://é/", InvalidUrl::HostInvalid),
            ("http://%61/", InvalidUrl::HostInvalid),
            ("http://::1/", InvalidUrl::HostInvalid),
            ("http://[::1/", InvalidUrl::HostInvalid),
            ("http://[fe80::1%25eth0]/", InvalidUrl::HostInvalid),
            ("http://a:65536/", InvalidUrl::HostInvalid),
            ("http://a..b/", InvalidUrl::HostInvalid),
            ("http://a/b c", InvalidUrl::TargetInvalid),
            ("http://a/\r\nX: y", InvalidUrl::TargetInvalid),
            ("http://a/\t", InvalidUrl::TargetInvalid),
            ("http://a?b c", InvalidUrl::TargetInvalid),
            ("http://a/é", InvalidUrl::TargetInvalid),
            ("http://a/b\\c", InvalidUrl::TargetInvalid),
            ("http://a/<b>", InvalidUrl::TargetInvalid),
        ] {
            assert_eq!(Url::parse(text), Err(error), "{text}");
            assert_eq!(Url::for_request(text), Err(error), "{text}");
        }
        assert_eq!(Url::parse("http://a/#b"), Err(InvalidUrl::FragmentPresent));
    }

    #[test]
    fn url_for_a_request_has_a_path_and_no_fragment() {
        for (text, sent) in [
            ("http://a.example", "http://a.example/"),
            ("HTTP://a.example:81/b?c#d", "HTTP://a.example:81/b?c"),
            ("http://[::1]:82?q=/", "http://[::1]:82/?q=/"),
            ("http://a:/#/x", "http://a:/"),
            ("http://a#?", "http://a/"),
            ("https://a/b/../{n}", "https://a/b/../{n}"),
        ] {
            let url = Url::for_request(text).unwrap();
            assert_eq!(url.as_str(), sent);
            assert!(url.target().starts_with('/'), "{text}");
        }
    }

    #[test]
    fn origin_comparison_ignores_case_and_default_port() {
        let origin = url("https://MCP.example/a");
        assert!(origin.has_origin_of(&url("HTTPS://mcp.example:443/b?c")));
        for other in ["http://mcp.example/", "https://mcp.example:444/", "https://mcp.example.evil/"] {
            assert!(!origin.has_origin_of(&url(other)), "{other}");
        }
    }

    #[test]
    fn https_and_loopback_urls_are_protected() {
        for text in
            ["http://localhost", "http://127.1.2.3:80/", "http://[::1]/", "http://[::ffff:127.0.0.1]/"]
        {
            assert!(url(text).is_protected(), "{text}");
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
            assert!(!url(text).is_protected(), "{text}");
        }
        assert!(url("https://a").is_protected());
    }

    #[test]
    fn host_can_be_an_ip_address() {
        for (text, address, host) in [
            ("http://127.0.0.1:1/", Some("127.0.0.1"), "127.0.0.1"),
            ("http://[2001:db8::1]/", Some("2001:db8::1"), "2001:db8::1"),
            ("http://[v1.a]/", None, "v1.a"),
            ("http://127.1/", None, "127.1"),
            ("http://a/", None, "a"),
        ] {
            let url = url(text);
            assert_eq!(url.address(), address.map(|address| address.parse().unwrap()), "{text}");
            assert_eq!(url.host_without_brackets(), host, "{text}");
        }
    }

    #[test]
    fn location_is_resolved_against_the_request_url() {
        let from = url("https://a.example/b?c");
        assert_eq!(from.join("/d?e#f").unwrap().as_str(), "https://a.example/d?e");
        assert_eq!(from.join("http://b.example/").unwrap().as_str(), "http://b.example/");
        for other in ["//b.example/", "d", "", "?d", "#d"] {
            assert_eq!(from.join(other), Err(InvalidUrl::SchemeMissing), "{other}");
        }
        assert_eq!(from.join("/d e"), Err(InvalidUrl::TargetInvalid));
        assert_eq!(from.with_target("d"), Err(InvalidUrl::TargetInvalid));
    }
}
