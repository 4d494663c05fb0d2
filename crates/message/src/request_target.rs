//! The target of a request (RFC 9110 §7.1, RFC 9112 §3.2).
//!
//! Each variant of [`RequestTarget`] is one of the four forms of a target. The protocol versions encode
//! these forms in different ways.

use core::fmt;

use crate::authority::Authority;

/// The target of a request, in the form that the client sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestTarget<'a> {
    /// `/path?query`: the usual form.
    Origin(OriginForm<'a>),
    /// `http://host/path?query`: the form for requests to proxies. Every server must accept this form.
    Absolute(AbsoluteForm<'a>),
    /// `host:port`: only for CONNECT.
    Authority(Authority<'a>),
    /// `*`: only for OPTIONS, where the target is the whole server.
    Asterisk,
}

/// A path and an optional query. A question mark separates the path from the query (RFC 9112 §3.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OriginForm<'a> {
    path_and_query: &'a [u8],
    path_length: u32,
    has_plain_path: bool,
}

/// An absolute URI (RFC 9112 §3.2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbsoluteForm<'a> {
    /// The scheme, in its original case.
    pub scheme: &'a str,
    /// The host and the optional port.
    pub authority: Authority<'a>,
    /// The path and the query. The path is empty if the URI ends after the authority.
    pub origin: OriginForm<'a>,
}

impl<'a> OriginForm<'a> {
    /// Creates the form from a path with an optional query. The query begins after the first question
    /// mark.
    pub fn new(path_and_query: &'a str) -> Self {
        let end = path_and_query.find('?').unwrap_or(path_and_query.len());
        let bytes = path_and_query.as_bytes();
        Self::from_parsed(bytes, end, is_plain_path(&bytes[..end]))
    }

    /// Creates the form from bytes that a parser has checked. `path_and_query` must contain only visible
    /// ASCII characters, and `path_length` is the number of bytes in the path. `has_plain_path` must be the
    /// result of [`is_plain_path`] for the path.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the limit of a target is far below 4 GiB")]
    pub const fn from_parsed(path_and_query: &'a [u8], path_length: usize, has_plain_path: bool) -> Self {
        Self { path_and_query, path_length: path_length as u32, has_plain_path }
    }

    /// Returns `true` if the path is [plain](is_plain_path). The parser has already examined the path, so
    /// this call is cheap.
    #[inline]
    pub const fn has_plain_path(&self) -> bool {
        self.has_plain_path
    }

    /// Returns the path as sent. Percent-encoded characters stay encoded.
    #[inline]
    pub fn path(&self) -> &'a str {
        core::str::from_utf8(self.path_bytes()).unwrap_or_default()
    }

    /// Returns the bytes of the path as sent.
    #[inline]
    pub fn path_bytes(&self) -> &'a [u8] {
        &self.path_and_query[..self.path_length as usize]
    }

    /// Returns the query as sent, without the question mark, or `None` if the target has no question
    /// mark.
    pub fn query(&self) -> Option<&'a str> {
        core::str::from_utf8(self.path_and_query.get(self.path_length as usize + 1..)?).ok()
    }

    /// Returns the bytes of the path and the query as sent.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.path_and_query
    }

    /// Returns the path and the query as sent.
    pub fn as_str(&self) -> &'a str {
        core::str::from_utf8(self.path_and_query).unwrap_or_default()
    }
}

impl<'a> RequestTarget<'a> {
    /// Returns the path as sent. For an absolute form without a path, the result is `/`. For the asterisk
    /// form, the result is `*`. For CONNECT, the result is an empty string.
    pub fn path(&self) -> &'a str {
        match self {
            Self::Origin(origin) => origin.path(),
            Self::Absolute(AbsoluteForm { origin, .. }) if origin.path().is_empty() => "/",
            Self::Absolute(absolute) => absolute.origin.path(),
            Self::Authority(_) => "",
            Self::Asterisk => "*",
        }
    }

    /// Returns the query as sent, without the question mark, or `None` if the target has no question
    /// mark.
    pub fn query(&self) -> Option<&'a str> {
        match self {
            Self::Origin(origin) | Self::Absolute(AbsoluteForm { origin, .. }) => origin.query(),
            Self::Authority(_) | Self::Asterisk => None,
        }
    }

    /// Returns the authority, or `None` for the origin form and the asterisk form.
    pub fn authority(&self) -> Option<Authority<'a>> {
        match self {
            Self::Absolute(absolute) => Some(absolute.authority),
            Self::Authority(authority) => Some(*authority),
            Self::Origin(_) | Self::Asterisk => None,
        }
    }
}

/// Returns `true` if `path` contains only letters, digits, `-`, `.`, `_` and `/`, and if no slash and no dot
/// follows a slash. Such a path is in normal form (RFC 3986 §6.2.2), and all servers read it in the same way.
/// Some other paths are in normal form too.
#[inline]
pub const fn is_plain_path(path: &[u8]) -> bool {
    plain_path_end(path) == path.len()
}

/// Returns the length of the longest start of `path` that is [plain](is_plain_path).
pub const fn plain_path_end(path: &[u8]) -> usize {
    let (mut at, mut follows_slash) = (0, false);
    while at < path.len() {
        let byte = path[at];
        let is_slash_or_dot = matches!(byte, b'/' | b'.');
        let is_allowed = is_slash_or_dot || byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !is_allowed || (follows_slash && is_slash_or_dot) {
            break;
        }
        follows_slash = byte == b'/';
        at += 1;
    }
    at
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
    fn first_question_mark_separates_path_and_query() {
        let origin = OriginForm::new("/a?b?c");
        assert_eq!((origin.path(), origin.query()), ("/a", Some("b?c")));
        assert_eq!(OriginForm::new("/a").query(), None);
        assert_eq!(OriginForm::new("/a?").query(), Some(""));
        assert_eq!(OriginForm::new("").path(), "");
    }

    #[test]
    fn plain_path_needs_no_normalization() {
        for path in ["", "/", "/a", "/a/b/", "/A-z_0.9/b.c", "a//".trim_end_matches('/')] {
            assert!(OriginForm::new(path).has_plain_path(), "{path}");
        }
        for path in ["//", "/a//b", "/.", "/..", "/a/./b", "/.a", "/%41", "/a;b", "/~", "/a b", "/a:b", "/ä"]
        {
            assert!(!OriginForm::new(path).has_plain_path(), "{path}");
        }
        // The query does not matter.
        assert!(OriginForm::new("/a?//;%").has_plain_path());
    }

    #[test]
    fn absolute_form_without_path_has_the_root_path() {
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
