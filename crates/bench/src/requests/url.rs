//! Parses target URLs, such as `https://example.com:8443/path?query` or `http://unix:/run/app.sock:/path`.

use std::fmt;

use thruway_client::{InvalidUrl, Url};

/// A target URL of a load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadUrl {
    /// The server.
    pub origin: Origin,
    /// `true` if the scheme is `https`.
    pub is_https: bool,
    /// The value of the `Host` header.
    pub host: String,
    /// The path and the query, which may contain placeholders.
    pub target: String,
    /// The weight of the URL: a URL of weight 2 is requested twice as often as a URL of weight 1. The URL
    /// `http://a/@3` has the weight 3.
    pub weight: u32,
}

/// The address of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A host name or IP address, and a port.
    Tcp {
        /// The host name or IP address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(String),
}

impl LoadUrl {
    /// Parses a URL with an optional weight.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid.
    pub fn parse(text: &str) -> Result<Self, InvalidLoadUrl> {
        let (text, weight) = split_weight(text)?;
        if let Some(socket) = without_start(text, "http://").and_then(|rest| rest.strip_prefix("unix:")) {
            return Self::parse_unix(socket, weight);
        }
        // Here, `unix:` is not a host name. Unix sockets do not support TLS, because they have no name for
        // a certificate.
        if without_start(text, "https://").is_some_and(|rest| rest.starts_with("unix:/")) {
            return Err(InvalidUrl::HostInvalid.into());
        }
        let url = Url::for_request(text)?;
        let origin = Origin::Tcp { host: url.host_without_brackets().to_owned(), port: url.port() };
        Ok(Self::new(origin, &url, weight))
    }

    /// Parses `PATH` or `PATH:TARGET`, in which `PATH` is the path of the socket. The default target is
    /// `/`.
    fn parse_unix(rest: &str, weight: u32) -> Result<Self, InvalidLoadUrl> {
        let rest = rest.split('#').next().unwrap_or_default();
        let (path, target) = rest.split_once(':').unwrap_or((rest, "/"));
        if path.is_empty() {
            return Err(InvalidUrl::HostInvalid.into());
        }
        let target = target.strip_prefix('/').unwrap_or(target);
        let url = Url::for_request(&format!("http://localhost/{target}"))?;
        Ok(Self::new(Origin::Unix(path.to_owned()), &url, weight))
    }

    /// Returns path and query of the redirect `location` of a response to a request for `target` (RFC 9110 §10.2.2).
    ///
    /// # Errors
    /// Returns a message if the URL is invalid, or belongs to another server.
    pub(crate) fn target_of_redirect(&self, target: &str, location: &str) -> Result<String, String> {
        let shown = || location.chars().take(100).collect::<String>().escape_debug().to_string();
        let scheme = if self.is_https { "https" } else { "http" };
        let current = Url::for_request(&format!("{scheme}://{}{target}", self.host));
        let reference = resolved(scheme, target, location);
        let next = current.and_then(|current| Ok((current.join(&reference)?, current)));
        match next {
            Ok((next, current)) if next.has_origin_of(&current) => {
                let slash = if next.target().starts_with('/') { "" } else { "/" };
                Ok(format!("{slash}{}", next.target()))
            }
            Ok(_) => Err(format!("the redirect leads to another server: `{}`", shown())),
            Err(_) => Err(format!("the URL of the redirect is invalid: `{}`", shown())),
        }
    }

    fn new(origin: Origin, url: &Url, weight: u32) -> Self {
        let (host, target) = (url.authority().to_owned(), url.target().to_owned());
        Self { origin, is_https: url.is_https(), host, target, weight }
    }
}

/// Resolves the reference of a redirect (RFC 3986 §5.2). `target` is path and query of the current URL. Returns a URL with
/// a scheme, or path and query on the same server.
fn resolved(scheme: &str, target: &str, reference: &str) -> String {
    let reference = reference.split('#').next().unwrap_or_default();
    if let Some(rest) = reference.strip_prefix("//") {
        return format!("{scheme}://{rest}");
    }
    let first = reference.find([':', '/', '?']);
    if first.is_some_and(|at| reference[at..].starts_with(':')) {
        return reference.to_owned();
    }
    let path = target.split('?').next().unwrap_or_default();
    let directory = path.rfind('/').map_or("/", |end| &path[..=end]);
    match reference.chars().next() {
        None => target.to_owned(),
        Some('?') => format!("{path}{reference}"),
        Some('/') => without_dot_segments(reference),
        Some(_) => without_dot_segments(&format!("{directory}{reference}")),
    }
}

/// Removes the segments `.` and `..` from a path (RFC 3986 §5.2.4). Keeps the query.
fn without_dot_segments(target: &str) -> String {
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    let mut segments = Vec::new();
    let mut rest = path.split('/').skip(1).peekable();
    while let Some(segment) = rest.next() {
        match segment {
            "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
        if rest.peek().is_none() && matches!(segment, "." | "..") {
            segments.push("");
        }
    }
    format!("/{}{query}", segments.join("/"))
}

/// Returns the rest of `text` if `text` begins with `start`. Ignores the case of letters.
fn without_start<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    let (found, rest) = text.split_at_checked(start.len())?;
    found.eq_ignore_ascii_case(start).then_some(rest)
}

/// Splits the weight from a URL. The weight is the number after the last `@`, or 1 if there is no such
/// number.
fn split_weight(text: &str) -> Result<(&str, u32), InvalidLoadUrl> {
    match text.rsplit_once('@') {
        Some((url, weight)) if !weight.is_empty() && weight.bytes().all(|byte| byte.is_ascii_digit()) => {
            let weight = weight.parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight));
            Ok((url, weight.ok_or(InvalidLoadUrl::Weight)?))
        }
        _ => Ok((text, 1)),
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

/// Reason why a text is not a valid target URL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidLoadUrl {
    /// The text is not a valid URL.
    Url(InvalidUrl),
    /// The weight is 0 or too large.
    Weight,
}

impl InvalidLoadUrl {
    /// Returns a hint that shows the correct form.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::Url(InvalidUrl::SchemeMissing) => "add `http://` before it",
            Self::Url(InvalidUrl::TargetInvalid) => {
                "percent-encode spaces and special characters in paths, such as `%20`"
            }
            Self::Url(_) => {
                "a URL is `http://HOST:PORT/PATH`, or `http://unix:SOCKET:/PATH` for a Unix socket"
            }
            Self::Weight => "a weight is a number from 1 to 1000 after `@`; write an `@` in a path as `%40`",
        }
    }
}

impl From<InvalidUrl> for InvalidLoadUrl {
    fn from(error: InvalidUrl) -> Self {
        Self::Url(error)
    }
}

impl fmt::Display for InvalidLoadUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(error) => error.fmt(f),
            Self::Weight => f.write_str("the weight of the URL is invalid"),
        }
    }
}

impl std::error::Error for InvalidLoadUrl {}

const WEIGHT_MAX: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_into_origin_host_target_and_weight() {
        for (text, origin, host, target, weight) in [
            ("http://a.example", "a.example:80", "a.example", "/", 1),
            ("http://127.0.0.1:8080/b?c=d#e", "127.0.0.1:8080", "127.0.0.1:8080", "/b?c=d", 1),
            ("HTTP://[::1]:81?q", "[::1]:81", "[::1]:81", "/?q", 1),
            ("http://a/b@12", "a:80", "a", "/b", 12),
            ("http://a/@user", "a:80", "a", "/@user", 1),
            ("https://a.example/b", "a.example:443", "a.example", "/b", 1),
            ("http://unix:/run/a.sock", "unix:/run/a.sock", "localhost", "/", 1),
            ("http://unix:a.sock:/b?n={n}@2", "unix:a.sock", "localhost", "/b?n={n}", 2),
        ] {
            let url = LoadUrl::parse(text).unwrap();
            assert_eq!(url.is_https, text.starts_with("https:"));
            assert_eq!(
                (&*url.origin.to_string(), &*url.host, &*url.target, url.weight),
                (origin, host, target, weight)
            );
        }
    }

    #[test]
    fn redirects_are_resolved_on_the_same_server() {
        let url = LoadUrl::parse("http://a.example:81").unwrap();
        for (location, target) in [
            ("/b", "/b"),
            ("b?c", "/x/b?c"),
            ("./b#d", "/x/b"),
            ("../b", "/b"),
            ("../../..", "/"),
            ("?e", "/x/y?e"),
            ("", "/x/y?z"),
            ("/b/./c/..?/../", "/b/?/../"),
            ("//a.example:81/b", "/b"),
            ("http://a.example:81/b", "/b"),
            ("HTTP://A.example:81", "/"),
        ] {
            assert_eq!(url.target_of_redirect("/x/y?z", location).as_deref(), Ok(target), "{location}");
        }
        for (location, error) in [
            ("https://a.example:81/", "the redirect leads to another server: `https://a.example:81/`"),
            ("//other/", "the redirect leads to another server: `//other/`"),
            ("ftp:a", "the URL of the redirect is invalid: `ftp:a`"),
            ("/a b\u{1b}", "the URL of the redirect is invalid: `/a b\\u{1b}`"),
        ] {
            assert_eq!(url.target_of_redirect("/", location), Err(error.to_owned()));
        }
    }

    #[test]
    fn invalid_urls_are_rejected() {
        for (text, error) in [
            ("", InvalidUrl::SchemeMissing.into()),
            ("a.example:80/", InvalidUrl::SchemeMissing.into()),
            ("ftp://a", InvalidUrl::SchemeNotSupported.into()),
            ("https://unix:/run/a.sock", InvalidUrl::HostInvalid.into()),
            ("http://", InvalidUrl::HostInvalid.into()),
            ("http://:80/", InvalidUrl::HostInvalid.into()),
            ("http://user@a/", InvalidUrl::HostInvalid.into()),
            ("http://unix:", InvalidUrl::HostInvalid.into()),
            ("http://a/b c", InvalidUrl::TargetInvalid.into()),
            ("http://a/\r\nX: y", InvalidUrl::TargetInvalid.into()),
            ("http://a/@0", InvalidLoadUrl::Weight),
            ("http://a/@99999999999", InvalidLoadUrl::Weight),
        ] {
            assert_eq!(LoadUrl::parse(text), Err(error), "{text}");
        }
    }
}
