//! The target of a request (RFC 9110 §7.1, RFC 9112 §3.2).
//!
//! The four forms of a target are the variants of one enum. Each protocol version defines the bytes of each
//! form.

use core::fmt;

use crate::authority::Authority;

/// The target of a request, in its original form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestTarget<'a> {
    /// `/path?query`: the usual form.
    Origin(OriginForm<'a>),
    /// `http://host/path?query`: the form for proxies, which every server must understand.
    Absolute(AbsoluteForm<'a>),
    /// `host:port`: for CONNECT only.
    Authority(Authority<'a>),
    /// `*`: for OPTIONS only. The target is the whole server.
    Asterisk,
}

/// A path and, after a question mark, a query (RFC 9112 §3.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OriginForm<'a> {
    path_and_query: &'a [u8],
    path_length: u32,
}

/// A whole URI (RFC 9112 §3.2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbsoluteForm<'a> {
    /// The scheme, in its original case.
    pub scheme: &'a str,
    /// The host and, if given, the port.
    pub authority: Authority<'a>,
    /// The path, which may be empty here, and the query.
    pub origin: OriginForm<'a>,
}

impl<'a> OriginForm<'a> {
    /// Splits a path with a query at the first question mark.
    pub fn new(path_and_query: &'a str) -> Self {
        let end = path_and_query.find('?').unwrap_or(path_and_query.len());
        Self::from_parsed(path_and_query.as_bytes(), end)
    }

    /// Creates the form from a parsed path with its query, which must be visible ASCII. The path has
    /// `path_length` bytes.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the limit of a target is far below 4 GiB")]
    pub const fn from_parsed(path_and_query: &'a [u8], path_length: usize) -> Self {
        Self { path_and_query, path_length: path_length as u32 }
    }

    /// Returns the path as sent, with percent-encoding.
    #[inline]
    pub fn path(&self) -> &'a str {
        core::str::from_utf8(self.path_bytes()).unwrap_or_default()
    }

    /// Returns the bytes of the path as sent.
    #[inline]
    pub fn path_bytes(&self) -> &'a [u8] {
        &self.path_and_query[..self.path_length as usize]
    }

    /// Returns the query as sent, without its question mark.
    pub fn query(&self) -> Option<&'a str> {
        core::str::from_utf8(self.path_and_query.get(self.path_length as usize + 1..)?).ok()
    }

    /// Returns the bytes of path and query as sent.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.path_and_query
    }

    /// Returns path and query as sent.
    pub fn as_str(&self) -> &'a str {
        core::str::from_utf8(self.path_and_query).unwrap_or_default()
    }
}

impl<'a> RequestTarget<'a> {
    /// Returns the path as sent. The result is `*` for the asterisk form, `/` for an absolute form without a
    /// path, and empty for CONNECT.
    pub fn path(&self) -> &'a str {
        match self {
            Self::Origin(origin) => origin.path(),
            Self::Absolute(AbsoluteForm { origin, .. }) if origin.path().is_empty() => "/",
            Self::Absolute(absolute) => absolute.origin.path(),
            Self::Authority(_) => "",
            Self::Asterisk => "*",
        }
    }

    /// Returns the query as sent, without its question mark.
    pub fn query(&self) -> Option<&'a str> {
        match self {
            Self::Origin(origin) | Self::Absolute(AbsoluteForm { origin, .. }) => origin.query(),
            Self::Authority(_) | Self::Asterisk => None,
        }
    }

    /// Returns the authority, if the form has one.
    pub fn authority(&self) -> Option<Authority<'a>> {
        match self {
            Self::Absolute(absolute) => Some(absolute.authority),
            Self::Authority(authority) => Some(*authority),
            Self::Origin(_) | Self::Asterisk => None,
        }
    }
}

impl fmt::Display for RequestTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Origin(origin) => f.write_str(origin.as_str()),
            Self::Absolute(absolute) => {
                write!(f, "{}://{}{}", absolute.scheme, absolute.authority, absolute.origin.as_str())
            }
            Self::Authority(authority) => authority.fmt(f),
            Self::Asterisk => f.write_str("*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn path_and_query_part_at_the_first_question_mark() {
        let origin = OriginForm::new("/a?b?c");
        assert_eq!((origin.path(), origin.query()), ("/a", Some("b?c")));
        assert_eq!(OriginForm::new("/a").query(), None);
        assert_eq!(OriginForm::new("/a?").query(), Some(""));
        assert_eq!(OriginForm::new("").path(), "");
    }

    #[test]
    fn an_absolute_form_without_path_means_the_root() {
        let authority = Authority::parse(b"example.com").unwrap();
        let target = RequestTarget::Absolute(AbsoluteForm {
            scheme: "http",
            authority,
            origin: OriginForm::new("?q"),
        });
        assert_eq!((target.path(), target.query()), ("/", Some("q")));
        assert_eq!(target.to_string(), "http://example.com?q");
    }
}
