//! Request methods (RFC 9110 §9).

use core::fmt;

use crate::token::is_token;

/// A request method. Any token is a valid method (RFC 9110 §9.1). PATCH and the methods of RFC 9110 have
/// their own variants.
///
/// ```
/// use thruway_message::Method;
///
/// assert_eq!(Method::from_token(b"GET")?, Method::Get);
/// assert_eq!(Method::from_token(b"PROPFIND")?, Method::Other("PROPFIND"));
/// # Ok::<_, thruway_message::InvalidMethod>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Method<'a> {
    /// CONNECT, RFC 9110 §9.3.6.
    Connect,
    /// DELETE, RFC 9110 §9.3.5.
    Delete,
    /// GET, RFC 9110 §9.3.1.
    Get,
    /// HEAD, RFC 9110 §9.3.2.
    Head,
    /// OPTIONS, RFC 9110 §9.3.7.
    Options,
    /// PATCH, RFC 5789.
    Patch,
    /// POST, RFC 9110 §9.3.3.
    Post,
    /// PUT, RFC 9110 §9.3.4.
    Put,
    /// TRACE, RFC 9110 §9.3.8.
    Trace,
    /// Any method without a separate variant. [`Method::from_token`] returns this variant only if no
    /// other variant matches.
    Other(&'a str),
}

impl<'a> Method<'a> {
    /// Returns the method with the name `token`. Method names are case-sensitive.
    ///
    /// # Errors
    /// Returns an error if `token` is empty or contains a byte that a token must not contain (RFC 9110
    /// §9.1).
    pub fn from_token(token: &'a [u8]) -> Result<Self, InvalidMethod> {
        Ok(match token {
            b"CONNECT" => Self::Connect,
            b"DELETE" => Self::Delete,
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"OPTIONS" => Self::Options,
            b"PATCH" => Self::Patch,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"TRACE" => Self::Trace,
            other if is_token(other) => Self::Other(core::str::from_utf8(other).map_err(|_| InvalidMethod)?),
            _ => return Err(InvalidMethod),
        })
    }

    /// Returns the name of the method, as in a request line.
    pub const fn as_str(&self) -> &'a str {
        match self {
            Self::Connect => "CONNECT",
            Self::Delete => "DELETE",
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Patch => "PATCH",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Trace => "TRACE",
            Self::Other(name) => name,
        }
    }

    /// Returns the method with a `'static` lifetime, or `None` if the method is [`Method::Other`].
    pub const fn registered(&self) -> Option<Method<'static>> {
        Some(match self {
            Self::Connect => Method::Connect,
            Self::Delete => Method::Delete,
            Self::Get => Method::Get,
            Self::Head => Method::Head,
            Self::Options => Method::Options,
            Self::Patch => Method::Patch,
            Self::Post => Method::Post,
            Self::Put => Method::Put,
            Self::Trace => Method::Trace,
            Self::Other(_) => return None,
        })
    }

    /// Returns `true` if the method is safe, which means read-only for the origin server (RFC 9110
    /// §9.2.1).
    pub const fn is_safe(&self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options | Self::Trace)
    }

    /// Returns `true` if several identical requests have the same effect on the server as one request
    /// (RFC 9110 §9.2.2).
    pub const fn is_idempotent(&self) -> bool {
        self.is_safe() || matches!(self, Self::Delete | Self::Put)
    }
}

impl fmt::Display for Method<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error for a method that is not a token (RFC 9110 §9.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidMethod;

impl fmt::Display for InvalidMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a method must be a token")
    }
}

impl core::error::Error for InvalidMethod {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_is_a_method_and_keeps_its_case() {
        for name in ["GET", "PUT", "get", "M-SEARCH", "PROPFIND", "X!~"] {
            assert_eq!(Method::from_token(name.as_bytes()).unwrap().as_str(), name);
        }
        assert_eq!(Method::from_token(b"get"), Ok(Method::Other("get")));
        for bad in [&b""[..], b"GE T", b"G\0T", "É".as_bytes()] {
            assert_eq!(Method::from_token(bad), Err(InvalidMethod));
        }
    }
}
