//! Reasons why a request cannot be sent or checked.

use std::fmt;

/// Reason why a request cannot be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InvalidRequest {
    /// CONNECT opens a tunnel, so it cannot be used for a load.
    Connect,
    /// The name of this header field is not a token.
    HeaderName(String),
    /// The user cannot set this header field, because the load generator writes it or because it would
    /// change how responses are read.
    ReservedHeader(String),
    /// The value of this header field contains control characters.
    HeaderValue(String),
    /// The method is not a token.
    Method,
    /// The list of requests is empty.
    None,
    /// HTTP/2 does not allow this value of `Host` or this path.
    NotForHttp2,
    /// The request target is invalid.
    Target,
}

impl fmt::Display for InvalidRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("`CONNECT` is not supported: it opens a tunnel"),
            Self::HeaderName(name) => write!(f, "`{}` is not a valid header name", name.escape_debug()),
            Self::ReservedHeader(name) => write!(f, "the load generator sets the header `{name}` itself"),
            Self::HeaderValue(name) => write!(f, "the value of `{name}` contains control characters"),
            Self::Method => f.write_str("the method is invalid"),
            Self::None => f.write_str("there is no request to send"),
            Self::NotForHttp2 => f.write_str("the `Host` or the path is not valid in HTTP/2"),
            Self::Target => f.write_str("the path of the URL is invalid"),
        }
    }
}

impl InvalidRequest {
    /// Returns a hint for the user, if there is one.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::ReservedHeader(_) => {
                Some("`Content-Length` follows from the body; use `--no-keep-alive` for `Connection: close`")
            }
            Self::HeaderName(_) => Some("write a header as `Name: value`"),
            _ => None,
        }
    }
}

impl std::error::Error for InvalidRequest {}

/// Error for a text that is not a SHA-256 digest in hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidDigest;

impl fmt::Display for InvalidDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a SHA-256 digest is 64 hexadecimal digits, as `sha256sum` prints it")
    }
}

impl std::error::Error for InvalidDigest {}
