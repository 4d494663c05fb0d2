//! Where requests go, as people write it: `https://example.com:8443/path?query`, `http://unix:/run/app.sock:/path`.

use std::fmt;

use thruway_message::Authority;

/// A URL that can be loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    /// Where the server is.
    pub origin: Origin,
    /// Whether TLS is spoken with it.
    pub is_https: bool,
    /// What `Host` says.
    pub host: String,
    /// Path and query, which may hold placeholders.
    pub target: String,
    /// How often it is asked for, in comparison with others: `3` of `http://a/@3`.
    pub weight: u32,
}

/// Where a server is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A host, a name or an address, and a port.
    Tcp {
        /// Without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(String),
}

impl Url {
    /// Reads a URL, with a weight if one stands behind it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, InvalidUrl> {
        let (url, weight) = split_weight(text)?;
        let url = url.split_once('#').map_or(url, |(before, _)| before);
        let (scheme, rest) = url.split_once("://").ok_or(InvalidUrl::SchemeMissing)?;
        let is_https = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(InvalidUrl::SchemeUnknown),
        };
        match rest.strip_prefix("unix:") {
            Some(unix) if !is_https => return Self::parse_unix(unix, weight),
            // Not a host of that name: nobody has a certificate for a socket.
            Some(unix) if unix.starts_with('/') => return Err(InvalidUrl::HostInvalid),
            _ => {}
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, target) = rest.split_at(end);
        let authority = Authority::parse(host.as_bytes()).map_err(|_| InvalidUrl::HostInvalid)?;
        if authority.host().is_empty() {
            return Err(InvalidUrl::HostInvalid);
        }
        let name = authority.host();
        let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let default_port = if is_https { 443 } else { 80 };
        let origin = Origin::Tcp { host: name.to_owned(), port: authority.port().unwrap_or(default_port) };
        Ok(Self { origin, is_https, host: host.to_owned(), target: with_path(target)?, weight })
    }

    /// `PATH` or `PATH:TARGET`.
    fn parse_unix(rest: &str, weight: u32) -> Result<Self, InvalidUrl> {
        let (path, target) = rest.split_once(':').unwrap_or((rest, "/"));
        if path.is_empty() {
            return Err(InvalidUrl::HostInvalid);
        }
        let origin = Origin::Unix(path.to_owned());
        Ok(Self { origin, is_https: false, host: "localhost".to_owned(), target: with_path(target)?, weight })
    }
}

/// The number behind the last `@` in path or query is a weight; in an authority it has no place.
fn split_weight(text: &str) -> Result<(&str, u32), InvalidUrl> {
    match text.rsplit_once('@') {
        Some((url, weight)) if !weight.is_empty() && weight.bytes().all(|octet| octet.is_ascii_digit()) => {
            let weight = weight.parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight));
            Ok((url, weight.ok_or(InvalidUrl::WeightInvalid)?))
        }
        _ => Ok((text, 1)),
    }
}

fn with_path(target: &str) -> Result<String, InvalidUrl> {
    if target.bytes().any(|octet| !octet.is_ascii_graphic()) {
        return Err(InvalidUrl::TargetInvalid);
    }
    let slash = if target.starts_with('/') { "" } else { "/" };
    Ok(format!("{slash}{target}"))
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

/// Why a text is no URL that can be loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidUrl {
    /// The authority is no host with an optional port.
    HostInvalid,
    /// There is no `http://` or `https://`.
    SchemeMissing,
    /// Another scheme than `http` and `https`.
    SchemeUnknown,
    /// Path or query hold what no request target may.
    TargetInvalid,
    /// A weight of 0, or one that is too large.
    WeightInvalid,
}

impl InvalidUrl {
    /// What to write instead.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::HostInvalid | Self::SchemeUnknown => {
                "a URL is `http://HOST:PORT/PATH`, or `http://unix:SOCKET:/PATH` for a Unix socket"
            }
            Self::SchemeMissing => "put `http://` in front",
            Self::TargetInvalid => "write blanks and other characters of a path as `%20`",
            Self::WeightInvalid => {
                "a weight is a number from 1 to 1000 behind `@`; an `@` of a path is `%40`"
            }
        }
    }
}

impl fmt::Display for InvalidUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HostInvalid => "the URL has no valid host",
            Self::SchemeMissing => "the URL has no scheme",
            Self::SchemeUnknown => "the scheme of the URL is neither `http` nor `https`",
            Self::TargetInvalid => "the URL holds a character that it may not",
            Self::WeightInvalid => "the weight of the URL is invalid",
        })
    }
}

impl std::error::Error for InvalidUrl {}

const WEIGHT_MAX: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
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
            let url = Url::parse(text).unwrap();
            assert_eq!(url.is_https, text.starts_with("https:"));
            assert_eq!(
                (&*url.origin.to_string(), &*url.host, &*url.target, url.weight),
                (origin, host, target, weight)
            );
        }
    }

    #[test]
    fn what_cannot_be_loaded_is_refused() {
        for (text, error) in [
            ("", InvalidUrl::SchemeMissing),
            ("a.example:80/", InvalidUrl::SchemeMissing),
            ("ftp://a", InvalidUrl::SchemeUnknown),
            ("https://unix:/run/a.sock", InvalidUrl::HostInvalid),
            ("http://", InvalidUrl::HostInvalid),
            ("http://:80/", InvalidUrl::HostInvalid),
            ("http://user@a/", InvalidUrl::HostInvalid),
            ("http://unix:", InvalidUrl::HostInvalid),
            ("http://a/b c", InvalidUrl::TargetInvalid),
            ("http://a/\r\nX: y", InvalidUrl::TargetInvalid),
            ("http://a/@0", InvalidUrl::WeightInvalid),
            ("http://a/@99999999999", InvalidUrl::WeightInvalid),
        ] {
            assert_eq!(Url::parse(text), Err(error), "{text}");
        }
    }
}
