//! Text templates with placeholders, which the gateway replaces by properties of a request.

use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use thruway_net::IpText;
use thruway_server::{CertificateName, ClientAddr, Request};

use super::super::request_id::RequestId;
use super::InvalidRewrite;
use crate::routes::NormalPath;
use crate::{PathMatch, PathPattern, RouteRegex};

/// A text template with placeholders.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Template {
    /// Text of the template in the config.
    text: String,
    /// The placeholders of the template, each with the text that precedes the placeholder.
    pub(super) parts: Vec<(String, Placeholder)>,
    /// The text after the last placeholder.
    pub(super) end: String,
    /// The expression of [`Placeholder::Group`], if the template has such a placeholder.
    groups: Option<RouteRegex>,
}

/// The paths of a route. They determine the placeholders that its templates can use.
#[derive(Clone, Copy, Debug)]
pub struct RoutePaths<'r> {
    /// Paths of the route.
    pub path: &'r PathMatch,
    /// Regular expression for the path, if any.
    pub regex: Option<&'r RouteRegex>,
}

impl<'r> From<&'r PathMatch> for RoutePaths<'r> {
    fn from(path: &'r PathMatch) -> Self {
        Self { path, regex: None }
    }
}

/// A placeholder for a property of the request. The gateway inserts the property as the client sent it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Placeholder {
    /// `{client}`: the address of the client, without a port.
    Client,
    /// `{host}`: the host that the client requested, without a port.
    Host,
    /// `{path}`: the path.
    Path,
    /// `{query}`: the query with its question mark, or an empty text if the request has no query.
    Query,
    /// `{request_id}`: the request id, as in the access log.
    RequestId,
    /// `{rest}`: the part of the path after the prefix of the route. The value of `{rest}` begins with `/`
    /// or is empty.
    Rest,
    /// `{scheme}`: the URL scheme that the client uses.
    Scheme,
    /// `{tls_…}`: a property of the client's TLS connection, or an empty text if the connection has no such
    /// property.
    Tls(TlsPlaceholder),
    /// A parameter of the route's path pattern.
    Parameter(Parameter),
    /// A group of the route's regular expression for the path.
    Group(usize),
}

/// A property of the client's TLS connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TlsPlaceholder {
    /// `{tls_client_fingerprint}`: the SHA-256 digest of the client's certificate.
    ClientFingerprint,
    /// `{tls_client_names}`: the subject alternative names in the client's certificate. The type precedes
    /// each name: `DNS:a.example,URI:spiffe://a.example/b`.
    ClientNames,
    /// `{tls_client_subject}`: the subject of the client's certificate.
    ClientSubject,
    /// `{tls_server_name}`: the server name that the client sent in its TLS handshake.
    ServerName,
    /// `{tls_version}`: `TLSv1.2` or `TLSv1.3`.
    Version,
}

/// Position of a parameter in a path that matches the pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parameter {
    /// Index of the path segment with the parameter. The first segment has the index 0.
    segment: usize,
    /// Number of bytes before the parameter in its segment. `after` is the number of bytes after the
    /// parameter.
    before: usize,
    after: usize,
    /// `true` if the parameter is the remaining path (`{*name}`).
    is_rest: bool,
}

impl Template {
    /// Parses `text`. `place` returns the placeholder for a name, or `None` for an unknown name. `{{` and
    /// `}}` are literal braces.
    pub(super) fn parse(
        text: &str,
        place: impl Fn(&str) -> Option<Placeholder>,
    ) -> Result<Self, InvalidRewrite> {
        let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let (brace, behind) = rest[at..].split_at(1);
            if let Some(behind) = behind.strip_prefix(brace) {
                literal.push_str(brace);
                rest = behind;
                continue;
            }
            let (name, behind) = behind.split_once('}').ok_or(InvalidRewrite::Braces)?;
            if brace == "}" || name.contains('{') {
                return Err(InvalidRewrite::Braces);
            }
            parts.push((std::mem::take(&mut literal), place(name).ok_or(InvalidRewrite::Placeholder)?));
            rest = behind;
        }
        literal.push_str(rest);
        Ok(Self { text: text.to_owned(), parts, end: literal, groups: None })
    }

    /// Sets the expression for the placeholders of groups.
    pub(super) fn with_groups_of(mut self, paths: RoutePaths<'_>) -> Self {
        if self.parts.iter().any(|(_, place)| matches!(place, Placeholder::Group(_))) {
            self.groups = paths.regex.cloned();
        }
        self
    }

    /// Returns the text in which the placeholders are replaced by properties of `request`.
    pub(super) fn fill(&self, request: &Request<'_>, id: &RequestId) -> String {
        let mut text = String::new();
        let groups = self.groups.as_ref().map(|regex| regex.groups_of(request.path())).unwrap_or_default();
        for (before, place) in &self.parts {
            text.push_str(before);
            match place {
                Placeholder::Group(group) => text.push_str(groups.get(*group).copied().unwrap_or_default()),
                place => place.fill(request, id, &mut text),
            }
        }
        text.push_str(&self.end);
        text
    }

    /// Returns the texts between the placeholders.
    pub(super) fn literals(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|(before, _)| before.as_str()).chain([self.end.as_str()])
    }
}

impl Placeholder {
    /// Returns the placeholder with the name `name`. `paths` determines the available placeholders.
    pub(super) fn named(name: &str, paths: RoutePaths<'_>) -> Option<Self> {
        match (name, paths.path) {
            ("rest", PathMatch::Prefix(_)) => Some(Self::Rest),
            (name, PathMatch::Pattern(pattern)) if let Some(parameter) = Parameter::named(name, pattern) => {
                Some(Self::Parameter(parameter))
            }
            (name, _) if let Some(group) = paths.regex.and_then(|regex| regex.group(name)) => {
                Some(Self::Group(group))
            }
            ("client", _) => Some(Self::Client),
            ("host", _) => Some(Self::Host),
            ("path", _) => Some(Self::Path),
            ("query", _) => Some(Self::Query),
            ("request_id", _) => Some(Self::RequestId),
            ("scheme", _) => Some(Self::Scheme),
            (name, _) => TlsPlaceholder::named(name.strip_prefix("tls_")?).map(Self::Tls),
        }
    }

    fn fill(self, request: &Request<'_>, id: &RequestId, text: &mut String) {
        match self {
            Self::Client => match request.client() {
                ClientAddr::Tcp(address) => text.push_str(IpText::from(address.ip()).as_str()),
                ClientAddr::Unix => text.push_str("unix:"),
            },
            Self::Host => text.push_str(host_without_port(request.host())),
            Self::Path => text.push_str(request.path()),
            Self::Query => {
                if let Some(query) = request.query_string() {
                    text.push('?');
                    text.push_str(query);
                }
            }
            // This code does not use `mounted_path`, because `mounted_path` does not distinguish an empty
            // path from `/`.
            Self::Rest => {
                text.push_str(request.path().get(request.mount_prefix()..).unwrap_or_default());
            }
            Self::RequestId => text.push_str(id.of(request)),
            Self::Scheme => text.push_str(request.scheme()),
            Self::Tls(place) => place.fill(request, text),
            Self::Parameter(parameter) => text.push_str(parameter.of(request.path()).unwrap_or_default()),
            // The template fills groups, because one search finds all of them.
            Self::Group(_) => {}
        }
    }
}

impl TlsPlaceholder {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "client_fingerprint" => Self::ClientFingerprint,
            "client_names" => Self::ClientNames,
            "client_subject" => Self::ClientSubject,
            "server_name" => Self::ServerName,
            "version" => Self::Version,
            _ => return None,
        })
    }

    fn fill(self, request: &Request<'_>, text: &mut String) {
        let Some(tls) = request.connection().tls() else { return };
        let certificate = tls.peer_certificate.as_ref();
        match (self, certificate) {
            (Self::ServerName, _) => text.push_str(tls.server_name.as_deref().unwrap_or_default()),
            (Self::Version, _) => text.push_str(tls.version.as_str()),
            (_, None) => {}
            (Self::ClientFingerprint, Some(certificate)) => text.push_str(&certificate.fingerprint),
            (Self::ClientNames, Some(certificate)) => push_names(&certificate.names, text),
            (Self::ClientSubject, Some(certificate)) => text.push_str(&certificate.subject),
        }
    }
}

/// Appends the names of a certificate, separated by commas. The type of each name comes before the name, in
/// the notation of OpenSSL. Within a name, commas, percent signs, spaces, control characters and non-ASCII
/// characters are percent-encoded, so that the text is unambiguous.
fn push_names(names: &[CertificateName], text: &mut String) {
    for (place, name) in names.iter().enumerate() {
        text.push_str(if place == 0 { "" } else { "," });
        text.push_str(match name {
            CertificateName::Dns(_) => "DNS:",
            CertificateName::Email(_) => "email:",
            CertificateName::Ip(_) => "IP:",
            CertificateName::Uri(_) => "URI:",
        });
        text.extend(utf8_percent_encode(&name.to_string(), ENCODED_IN_NAMES));
    }
}

const ENCODED_IN_NAMES: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b',');

/// Returns `host` without its port. A colon inside the brackets of an IPv6 address does not begin a port.
fn host_without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    }
}

impl Parameter {
    pub(crate) fn named(name: &str, pattern: &PathPattern) -> Option<Self> {
        let segments = pattern.as_str().strip_prefix('/')?.split('/');
        segments.enumerate().find_map(|(segment, text)| {
            let (before, rest) = text.split_once('{')?;
            let (of, after) = rest.split_once('}')?;
            let is_rest = of.starts_with('*');
            let is_it = of.strip_prefix('*').unwrap_or(of) == name;
            is_it.then_some(Self { segment, before: before.len(), after: after.len(), is_rest })
        })
    }

    /// Returns the value of the parameter in `path`, as the client sent it. The normalized path determines
    /// where the value begins and ends.
    pub(crate) fn of(self, path: &str) -> Option<&str> {
        let normal = NormalPath::of(path.as_bytes()).ok()?;
        let bytes = normal.bytes();
        let mut slashes = (0..bytes.len()).filter(|&at| bytes[at] == b'/');
        let start = slashes.nth(self.segment)? + 1;
        let range = if self.is_rest {
            start..bytes.len()
        } else {
            let end = slashes.next().unwrap_or(bytes.len());
            start + self.before..end.checked_sub(self.after)?
        };
        std::str::from_utf8(normal.as_sent(range)?).ok()
    }
}

/// Writes the template as configured.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(pattern: &str, name: &str, path: &str) -> Option<String> {
        let pattern = PathPattern::parse(pattern).unwrap();
        Parameter::named(name, &pattern).and_then(|parameter| parameter.of(path).map(str::to_owned))
    }

    #[test]
    fn parameter_is_the_matched_part_of_the_path_as_sent() {
        for (pattern, name, path, expected) in [
            ("/users/{id}", "id", "/users/5", Some("5")),
            ("/users/{id}/posts/{post}", "post", "/users/5/posts/a%2Fb", Some("a%2Fb")),
            ("/v{version}.json", "version", "/v12.json", Some("12")),
            ("/static/{*rest}", "rest", "/static/a//b/", Some("a//b/")),
            ("/{*all}", "all", "/a", Some("a")),
            ("/users/{id}", "name", "/users/5", None),
            ("/users/{id}", "id", "//x/../%75sers//%35%2fa", Some("%35%2fa")),
            ("/v{version}.json", "version", "/%7612%2ejson", Some("12")),
            ("/static/{*rest}", "rest", "/static//a/../b/.", Some("b/.")),
        ] {
            assert_eq!(parameter(pattern, name, path).as_deref(), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn braces_mark_placeholders_or_are_doubled() {
        let parse = |text| Template::parse(text, |name| (name == "path").then_some(Placeholder::Path));
        let template = parse("{{\"a\":\"{path}\"}}").unwrap();
        assert_eq!(template.parts, [("{\"a\":\"".to_owned(), Placeholder::Path)]);
        assert_eq!(template.end, "\"}");
        for (text, error) in [
            ("{path", InvalidRewrite::Braces),
            ("path}", InvalidRewrite::Braces),
            ("a}b}", InvalidRewrite::Braces),
            ("{pa{path}", InvalidRewrite::Braces),
            ("{}", InvalidRewrite::Placeholder),
            ("{other}", InvalidRewrite::Placeholder),
        ] {
            assert_eq!(parse(text).unwrap_err(), error, "{text}");
        }
    }

    /// Regression test: names were joined with commas, without their types. A certificate with the URI
    /// `spiffe://a/b,admin.example` looked like a certificate with the additional host name `admin.example`.
    #[test]
    fn certificate_names_are_formatted_unambiguously() {
        let shown = |names: &[CertificateName]| {
            let mut text = String::new();
            push_names(names, &mut text);
            text
        };
        let [dns, email, uri] = [CertificateName::Dns, CertificateName::Email, CertificateName::Uri]
            .map(|of| move |name: &str| of(name.to_owned()));
        let ip = CertificateName::Ip("2001:db8::1".parse().unwrap());
        assert_eq!(
            shown(&[dns("a.example"), email("b@a.example"), uri("spiffe://a.example/c"), ip]),
            "DNS:a.example,email:b@a.example,URI:spiffe://a.example/c,IP:2001:db8::1"
        );
        assert_eq!(shown(&[uri("spiffe://a/b,admin.example")]), "URI:spiffe://a/b%2Cadmin.example");
        assert_ne!(shown(&[uri("a"), dns("b")]), shown(&[uri("a,DNS:b")]));
        assert_ne!(shown(&[uri("admin.example")]), shown(&[dns("admin.example")]));
        assert_ne!(shown(&[uri("a%2Cb")]), shown(&[uri("a,b")]));
        assert_eq!(shown(&[dns(" a\r\nb\u{fc}")]), "DNS:%20a%0D%0Ab%C3%BC");
        assert_eq!(shown(&[]), "");
    }

    #[test]
    fn host_placeholder_omits_the_port() {
        for (host, expected) in
            [("a:80", "a"), ("a", "a"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("", "")]
        {
            assert_eq!(host_without_port(host), expected);
        }
    }
}
