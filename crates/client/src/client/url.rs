//! What a request is sent to, as people write it: `https://example.com:8443/path?query`.

use thruway_message::Authority;

use super::ClientError;

/// The parts of a URL (RFC 9110 §4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Url<'a> {
    /// Scheme and authority: what requests must agree in to use the same connection.
    pub(super) origin: &'a str,
    /// Whether the scheme is `https`.
    pub(super) is_https: bool,
    pub(super) authority: Authority<'a>,
    /// Path and query; `/` if there is neither.
    pub(super) target: Target<'a>,
}

/// The request target in origin form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target<'a> {
    Path(&'a str),
    /// A query without the path that must stand before it.
    Query(&'a str),
}

impl<'a> Url<'a> {
    /// The parts of `url`. A fragment is not sent (RFC 9110 §4.1).
    pub(super) fn parse(url: &'a str) -> Result<Self, ClientError> {
        let url = url.split_once('#').map_or(url, |(before, _)| before);
        let scheme_end = url.find("://").ok_or(ClientError::UrlInvalid)?;
        let is_https = match &url[..scheme_end] {
            scheme if scheme.eq_ignore_ascii_case("https") => true,
            scheme if scheme.eq_ignore_ascii_case("http") => false,
            _ => return Err(ClientError::SchemeNotSupported),
        };
        let start = scheme_end + "://".len();
        let end = url[start..].find(['/', '?']).map_or(url.len(), |length| start + length);
        let authority = Authority::parse(&url.as_bytes()[start..end]).map_err(|_| ClientError::UrlInvalid)?;
        if authority.host().is_empty() {
            // RFC 9110 §4.2.1 and §4.2.2.
            return Err(ClientError::UrlInvalid);
        }
        let target = match &url[end..] {
            "" => Target::Path("/"),
            query if query.starts_with('?') => Target::Query(query),
            path => Target::Path(path),
        };
        Ok(Self { origin: &url[..end], is_https, authority, target })
    }

    /// The port, or the default one of the scheme.
    pub(super) fn port(&self) -> u16 {
        self.authority.port().unwrap_or(if self.is_https { 443 } else { 80 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        for (text, origin, port, target) in [
            ("http://a.example", "http://a.example", 80, Target::Path("/")),
            ("HTTP://a.example:81/b?c#d", "HTTP://a.example:81", 81, Target::Path("/b?c")),
            ("http://[::1]:82?q=/", "http://[::1]:82", 82, Target::Query("?q=/")),
            ("http://a:/#/x", "http://a:", 80, Target::Path("/")),
            ("Https://a/b", "Https://a", 443, Target::Path("/b")),
            ("https://a:80", "https://a:80", 80, Target::Path("/")),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!((url.origin, url.port(), url.target), (origin, port, target), "{text}");
            assert_eq!(url.is_https, text.to_ascii_lowercase().starts_with("https:"), "{text}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for text in ["", "a.example", "/path", "http://", "http:///a", "http://user@a/", "http://a b/"] {
            assert_eq!(Url::parse(text), Err(ClientError::UrlInvalid), "{text}");
        }
        assert_eq!(Url::parse("ftp://a/"), Err(ClientError::SchemeNotSupported));
    }
}
