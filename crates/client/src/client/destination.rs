//! The destination of a request, parsed from a URL such as `https://example.com:8443/path?query`.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};

use thruway_message::{FieldLinesBuf, InvalidFieldLine};

use super::error::ClientError;
use crate::url::Url;

/// The destination of many requests: a parsed URL (RFC 9110 §4.2), and the field lines that all of these
/// requests contain.
///
/// ```no_run
/// # async fn example() -> Result<(), thruway_client::ClientError> {
/// use thruway_client::{Client, Destination};
/// use thruway_message::Method;
///
/// let client = Client::new();
/// let keys = Destination::parse("http://127.0.0.1:8080/keys")?.field("Accept", "application/json")?;
/// for _ in 0..1000 {
///     client.request_to(Method::Get, &keys).send().await?.collect(1 << 20).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Destination(Arc<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    url: Url,
    origin: Origin,
    /// The field lines that every request contains. `Host` comes first.
    field_lines: FieldLinesBuf,
}

/// The scheme and authority of a URL. Requests with the same origin can share a connection. The hash is
/// stored, so that the client need not compute it for each request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Origin {
    hash: u64,
    text: Box<str>,
}

/// A hasher that returns the stored hash of an [`Origin`].
#[derive(Default)]
pub(super) struct ByOrigin(u64);

impl Destination {
    /// Parses `url`. Drops the fragment, which clients do not send (RFC 9110 §4.1).
    ///
    /// # Errors
    /// Returns an error if `url` is not valid for requests: see [`Url::for_request`].
    pub fn parse(url: &str) -> Result<Self, ClientError> {
        let url = Url::for_request(url)?;
        let mut field_lines = FieldLinesBuf::new();
        field_lines.append("Host", url.authority()).map_err(ClientError::FieldInvalid)?;
        Ok(Self(Arc::new(Parts { origin: Origin::new(url.origin()), url, field_lines })))
    }

    /// Adds a field line to all requests. The names `Host`, `Content-Length` and `Transfer-Encoding` are
    /// not allowed, because the client writes these fields.
    ///
    /// # Errors
    /// Returns an error if the field line is invalid, or if its name is not allowed.
    pub fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> Result<Self, ClientError> {
        let field_lines = &mut Arc::make_mut(&mut self.0).field_lines;
        append(field_lines, name, value).map_err(ClientError::FieldInvalid)?;
        Ok(self)
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.0.origin
    }

    /// Returns the request target in origin form: path and query, or `/` if both are empty.
    pub(super) fn target(&self) -> &str {
        self.0.url.target()
    }

    pub(super) fn host(&self) -> &str {
        self.0.url.host()
    }

    /// Returns the port. If the URL has no port, returns the default port of the scheme.
    pub(super) fn port(&self) -> u16 {
        self.0.url.port()
    }

    /// Returns `true` if the scheme is `https`.
    pub(super) fn is_https(&self) -> bool {
        self.0.url.is_https()
    }

    /// Returns the field lines that every request contains. `Host` comes first.
    pub(super) fn field_lines(&self) -> &FieldLinesBuf {
        &self.0.field_lines
    }
}

impl Origin {
    fn new(text: &str) -> Self {
        static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self { hash: STATE.hash_one(text), text: text.into() }
    }
}

impl Hash for Origin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Hasher for ByOrigin {
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0.rotate_left(8) ^ u64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Appends a field line. Returns an error if the field line is invalid, or if its name is in
/// [`OUR_FIELDS`].
pub(super) fn append(
    field_lines: &mut FieldLinesBuf,
    name: &str,
    value: impl AsRef<[u8]>,
) -> Result<(), InvalidFieldLine> {
    if OUR_FIELDS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
        return Err(InvalidFieldLine::Name);
    }
    field_lines.append(name, value)
}

/// The fields that determine the routing and framing of a request. Only the client writes these fields.
pub(super) const OUR_FIELDS: [&str; 3] = ["content-length", "host", "transfer-encoding"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_parsed_into_origin_port_and_target() {
        for (text, origin, port, target) in [
            ("http://a.example", "http://a.example", 80, "/"),
            ("HTTP://a.example:81/b?c#d", "HTTP://a.example:81", 81, "/b?c"),
            ("http://[::1]:82?q=/", "http://[::1]:82", 82, "/?q=/"),
            ("http://a:/#/x", "http://a:", 80, "/"),
            ("Https://a/b", "Https://a", 443, "/b"),
            ("https://a:80", "https://a:80", 80, "/"),
        ] {
            let url = Destination::parse(text).unwrap();
            assert_eq!((&*url.origin().text, url.port(), url.target()), (origin, port, target), "{text}");
            assert_eq!(url.is_https(), text.to_ascii_lowercase().starts_with("https:"), "{text}");
            assert!(origin.contains(url.host()) && !url.host().contains('/'), "{text}");
            assert_eq!(url.field_lines().field("host").unwrap().as_str(), origin.split('/').nth(2), "{text}");
        }
    }

    #[test]
    fn invalid_urls_are_rejected() {
        for text in ["", "a.example", "/path", "http://", "http:///a", "http://user@a/", "http://a b/"] {
            assert_eq!(Destination::parse(text).unwrap_err(), ClientError::UrlInvalid, "{text}");
        }
        assert_eq!(Destination::parse("ftp://a/").unwrap_err(), ClientError::SchemeNotSupported);
    }

    #[test]
    fn invalid_field_lines_are_rejected() {
        let destination = Destination::parse("http://a/").unwrap();
        for (name, value) in [("Host", "b"), ("content-length", "1"), ("A b", "c"), ("A", "b\r\nC: d")] {
            let refused = destination.clone().field(name, value);
            assert!(matches!(refused, Err(ClientError::FieldInvalid(_))), "{name}: {value}");
        }
        let two = destination.clone().field("A", "b").unwrap().field("C", "d").unwrap();
        assert_eq!(two.field_lines().bytes(), b"Host: a\r\nA: b\r\nC: d\r\n");
        assert_eq!(destination.field_lines().bytes(), b"Host: a\r\n", "clones have separate field lines");
    }
}
