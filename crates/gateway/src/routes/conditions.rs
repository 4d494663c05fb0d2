//! Conditions of a route in addition to its host and path.

use std::fmt;

use thruway_message::{Method, RequestHead};

use crate::forward::read_alike;

/// Conditions of a route. A request must meet all conditions.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Conditions {
    /// Methods of the route. An empty list allows all methods except CONNECT. GET includes HEAD.
    pub methods: Vec<String>,
    /// Required headers. The case of names does not matter. In names, `_` and `-` count as equal, because
    /// some upstream servers do not distinguish them. Values must match exactly.
    pub headers: Vec<Expected>,
    /// Required query parameters. Names and values are compared after percent-decoding.
    pub query: Vec<Expected>,
}

/// A required header or query parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expected {
    /// Name of the header or query parameter.
    pub name: String,
    /// The required value. `None` allows any value.
    pub value: Option<String>,
}

/// The first condition that a request does not meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfulfilled<'r> {
    /// The method of the request is not in this list.
    Methods(&'r [String]),
    /// The header is missing or has another value.
    Header(&'r Expected),
    /// The query parameter is missing or has another value.
    Query(&'r Expected),
}

impl Conditions {
    /// Returns the number of conditions. A route with more conditions is more specific.
    pub fn count(&self) -> usize {
        usize::from(!self.methods.is_empty()) + self.headers.len() + self.query.len()
    }

    /// Returns the first condition that `head` does not meet. The method is checked last. Therefore, if this
    /// function returns the method, the request meets all other conditions.
    #[inline]
    pub(super) fn unfulfilled(&self, head: &RequestHead<'_>) -> Option<Unfulfilled<'_>> {
        let header = self.headers.iter().find(|expected| !has_field(head, expected)).map(Unfulfilled::Header);
        let query =
            || self.query.iter().find(|expected| !has_parameter(head, expected)).map(Unfulfilled::Query);
        let method = || (!self.take(head.method)).then_some(Unfulfilled::Methods(&self.methods));
        header.or_else(query).or_else(method)
    }

    fn take(&self, method: Method<'_>) -> bool {
        let is_for_any = self.methods.is_empty() && method != Method::Connect;
        is_for_any || self.methods.iter().any(|name| includes(name, method.as_str()))
    }

    /// Returns `true` if every request that meets the conditions in `others` also meets these conditions.
    pub(super) fn include(&self, others: &Self) -> bool {
        let includes_methods = match (&self.methods[..], &others.methods[..]) {
            ([], others) => others.iter().all(|other| other != Method::Connect.as_str()),
            (_, []) => false,
            (own, others) => others.iter().all(|other| own.iter().any(|name| includes(name, other))),
        };
        let is_same_field = |a: &str, b: &str| read_alike(a.as_bytes(), b.as_bytes());
        includes_methods
            && include_all(&self.headers, &others.headers, is_same_field)
            && include_all(&self.query, &others.query, |a, b| a == b)
    }
}

/// Returns `true` if a route for the method `name` handles `method`. A route for GET also handles HEAD (RFC
/// 9110 §9.3.2).
fn includes(name: &str, method: &str) -> bool {
    name == method || (name == "GET" && method == "HEAD")
}

/// Returns `true` if every request that meets all conditions in `others` also meets all conditions in
/// `own`.
fn include_all(own: &[Expected], others: &[Expected], is_same: impl Fn(&str, &str) -> bool) -> bool {
    own.iter().all(|expected| {
        others.iter().any(|other| {
            is_same(&expected.name, &other.name)
                && (expected.value.is_none() || expected.value == other.value)
        })
    })
}

/// Returns `true` if the request has the expected header, or a header that an upstream server may treat as
/// the expected header. Otherwise, a client could use a similar name to avoid the route.
fn has_field(head: &RequestHead<'_>, expected: &Expected) -> bool {
    let name = expected.name.as_bytes();
    head.field_lines.iter().any(|line| {
        read_alike(line.name.as_bytes(), name)
            && expected.value.as_ref().is_none_or(|text| line.value.as_bytes() == text.as_bytes())
    })
}

fn has_parameter(head: &RequestHead<'_>, expected: &Expected) -> bool {
    let Some(query) = head.target.query() else { return false };
    query.split('&').any(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        decodes_to(name, &expected.name) && expected.value.as_ref().is_none_or(|text| decodes_to(value, text))
    })
}

/// Returns `true` if decoding `encoded` as `application/x-www-form-urlencoded` results in `text`. Decodes and
/// compares one byte at a time, without a copy.
fn decodes_to(encoded: &str, text: &str) -> bool {
    let mut rest = encoded.as_bytes();
    let decoded = std::iter::from_fn(|| {
        let (byte, following) = match *rest {
            [b'%', high, low, ref following @ ..] if let Some(byte) = byte_of(high, low) => (byte, following),
            [b'+', ref following @ ..] => (b' ', following),
            [byte, ref following @ ..] => (byte, following),
            [] => return None,
        };
        rest = following;
        Some(byte)
    });
    decoded.eq(text.bytes())
}

/// Returns the byte that the hexadecimal digits `high` and `low` encode.
fn byte_of(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let methods = (!self.methods.is_empty()).then(|| self.methods.join(", "));
        let headers = self.headers.iter().map(|expected| format!("with header {expected}"));
        let query = self.query.iter().map(|expected| format!("with query {expected}"));
        let all: Vec<String> = methods.into_iter().chain(headers).chain(query).collect();
        f.write_str(&all.join(", "))
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl fmt::Display for Unfulfilled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Methods(methods) => write!(f, "its method is not {}", methods.join(", ")),
            Self::Header(expected) => write!(f, "it has no header {expected}"),
            Self::Query(expected) => write!(f, "it has no query {expected}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn methods(names: &[&str]) -> Conditions {
        Conditions { methods: names.iter().map(|&name| name.to_owned()).collect(), ..Conditions::default() }
    }

    fn header(name: &str, value: Option<&str>) -> Conditions {
        let expected = Expected { name: name.to_owned(), value: value.map(str::to_owned) };
        Conditions { headers: vec![expected], ..Conditions::default() }
    }

    #[test]
    fn query_is_decoded_before_comparison() {
        for (encoded, text) in
            [("a", "a"), ("", ""), ("%61+b%2B", "a b+"), ("caf%C3%a9", "café"), ("%6", "%6")]
        {
            assert!(decodes_to(encoded, text), "{encoded}");
        }
        for (encoded, text) in [("a", "b"), ("a", "ab"), ("ab", "a"), ("%zz", "z"), ("A", "a")] {
            assert!(!decodes_to(encoded, text), "{encoded}");
        }
    }

    #[test]
    fn conditions_include_stricter_conditions() {
        let any = Conditions::default();
        assert!(any.include(&methods(&["GET"])) && !methods(&["GET"]).include(&any));
        assert!(methods(&["POST", "GET"]).include(&methods(&["HEAD", "GET"])));
        assert!(!methods(&["HEAD"]).include(&methods(&["GET"])));
        assert!(header("A", None).include(&header("a", Some("1"))));
        assert!(header("A", Some("1")).include(&header("a", Some("1"))));
        assert!(!header("A", Some("1")).include(&header("a", None)));
        assert!(!header("A", Some("1")).include(&header("a", Some("2"))));
        assert!(!header("A", None).include(&methods(&["GET"])));
        assert!(header("X-A", None).include(&header("x_a", Some("1"))));
    }
}
