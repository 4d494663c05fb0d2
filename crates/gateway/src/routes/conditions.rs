//! Conditions of a route in addition to its host and path.

use std::fmt;

use thruway_message::{Method, RequestHead};

use super::regex::RouteRegex;
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
    /// Regular expressions on the path, file extensions and negated conditions. `None` if the route has none
    /// of them, so that most routes pay one comparison for all of them.
    pub special: Option<Box<SpecialConditions>>,
}

/// A required header or query parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expected {
    /// Name of the header or query parameter.
    pub name: String,
    /// The required value.
    pub value: ExpectedValue,
}

/// The required value of a header or query parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExpectedValue {
    /// Any value.
    Any,
    /// A value that this expression matches.
    Regex(RouteRegex),
    /// Exactly this value.
    Text(String),
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
    /// The expression does not match the path.
    PathRegex(&'r RouteRegex),
    /// The path has none of these extensions.
    Extensions(&'r [String]),
    /// The expression matches the path, but must not match it.
    NotPathRegex(&'r RouteRegex),
    /// The path has one of these extensions, but must not have it.
    NotExtensions(&'r [String]),
    /// The request has this header, but must not have it.
    NotHeader(&'r Expected),
    /// The request has this query parameter, but must not have it.
    NotQuery(&'r Expected),
}

impl Conditions {
    /// Returns the number of conditions. A route with more conditions is more specific.
    pub fn count(&self) -> usize {
        let special = self.special.as_ref().map_or(0, |special| special.count());
        usize::from(!self.methods.is_empty()) + self.headers.len() + self.query.len() + special
    }

    /// Returns the first condition that `head` does not meet. `path` is the normalized path of the request,
    /// or another reading of an ambiguous path. The method is checked last. Therefore, if this function
    /// returns the method, the request meets all other conditions.
    #[inline]
    pub(super) fn unfulfilled(&self, head: &RequestHead<'_>, path: &[u8]) -> Option<Unfulfilled<'_>> {
        let header = self.headers.iter().find(|expected| !has_field(head, expected)).map(Unfulfilled::Header);
        let query =
            || self.query.iter().find(|expected| !has_parameter(head, expected)).map(Unfulfilled::Query);
        let method = || (!self.take(head.method)).then_some(Unfulfilled::Methods(&self.methods));
        let special = || self.special.as_ref().and_then(|special| special.unfulfilled(head, path));
        header.or_else(query).or_else(special).or_else(method)
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
        let includes_special = match (&self.special, &others.special) {
            (None, _) => true,
            (Some(own), Some(others)) => own.include(others),
            (Some(own), None) => own.include(&SpecialConditions::default()),
        };
        includes_methods
            && includes_special
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
pub(super) fn include_all(
    own: &[Expected],
    others: &[Expected],
    is_same: impl Fn(&str, &str) -> bool,
) -> bool {
    own.iter().all(|expected| {
        others
            .iter()
            .any(|other| is_same(&expected.name, &other.name) && expected.value.includes(&other.value))
    })
}

/// Returns `true` if `a` and `b` are names of the same header.
pub(super) fn is_same_field(a: &str, b: &str) -> bool {
    read_alike(a.as_bytes(), b.as_bytes())
}

impl ExpectedValue {
    /// Returns `true` if every value that `other` allows is allowed here. Two regular expressions are
    /// compared as texts.
    fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Regex(regex), Self::Text(text)) => regex.is_match(text.as_bytes()),
            _ => self == other,
        }
    }

    #[inline]
    fn allows(&self, value: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Text(text) => value == text.as_bytes(),
            Self::Regex(regex) => regex.is_match(value),
        }
    }
}

/// Returns `true` if the request has the expected header, or a header that an upstream server may treat as
/// the expected header. Otherwise, a client could use a similar name to avoid the route.
pub(super) fn has_field(head: &RequestHead<'_>, expected: &Expected) -> bool {
    let name = expected.name.as_bytes();
    head.field_lines
        .iter()
        .any(|line| read_alike(line.name.as_bytes(), name) && expected.value.allows(line.value.as_bytes()))
}

pub(super) fn has_parameter(head: &RequestHead<'_>, expected: &Expected) -> bool {
    let Some(query) = head.target.query() else { return false };
    query.split('&').any(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        decodes_to(name, &expected.name)
            && match &expected.value {
                ExpectedValue::Any => true,
                ExpectedValue::Text(text) => decodes_to(value, text),
                ExpectedValue::Regex(regex) => regex.is_match(&decoded(value).collect::<Vec<_>>()),
            }
    })
}

/// Returns `true` if decoding `encoded` as `application/x-www-form-urlencoded` results in `text`. Decodes and
/// compares one byte at a time, without a copy.
fn decodes_to(encoded: &str, text: &str) -> bool {
    decoded(encoded).eq(text.bytes())
}

/// Returns the bytes of `encoded` after decoding as `application/x-www-form-urlencoded`.
fn decoded(encoded: &str) -> impl Iterator<Item = u8> {
    let mut rest = encoded.as_bytes();
    std::iter::from_fn(move || {
        let (byte, following) = match *rest {
            [b'%', high, low, ref following @ ..] if let Some(byte) = byte_of(high, low) => (byte, following),
            [b'+', ref following @ ..] => (b' ', following),
            [byte, ref following @ ..] => (byte, following),
            [] => return None,
        };
        rest = following;
        Some(byte)
    })
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
        let special = self.special.as_ref().filter(|special| special.count() > 0).map(ToString::to_string);
        let all: Vec<String> = methods.into_iter().chain(headers).chain(query).chain(special).collect();
        f.write_str(&all.join(", "))
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            ExpectedValue::Text(value) => write!(f, "{}={value}", self.name),
            ExpectedValue::Regex(regex) => write!(f, "{} matching {regex}", self.name),
            ExpectedValue::Any => f.write_str(&self.name),
        }
    }
}

impl fmt::Display for Unfulfilled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Methods(methods) => write!(f, "its method is not {}", methods.join(", ")),
            Self::Header(expected) => write!(f, "it has no header {expected}"),
            Self::Query(expected) => write!(f, "it has no query {expected}"),
            Self::PathRegex(regex) => write!(f, "its path does not match {regex}"),
            Self::Extensions(extensions) => {
                write!(f, "its path has not the extension {}", extensions.join(" or "))
            }
            Self::NotPathRegex(regex) => write!(f, "its path matches {regex}"),
            Self::NotExtensions(extensions) => {
                write!(f, "its path has the extension {}", extensions.join(" or "))
            }
            Self::NotHeader(expected) => write!(f, "it has the header {expected}"),
            Self::NotQuery(expected) => write!(f, "it has the query {expected}"),
        }
    }
}

/// Conditions that few routes have. A request must meet all of them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SpecialConditions {
    /// Regular expression for the [normalized](crate::normalized_path) path.
    pub path_regex: Option<RouteRegex>,
    /// Extensions of the last segment of the path, without the dot. The path must have one of them. An empty
    /// list allows all paths. The case matters. The path `/.php` has no extension.
    pub extensions: Vec<String>,
    /// Conditions that the request must not meet.
    pub negated: NegatedConditions,
}

/// Conditions that a request must not meet. If a request meets one of them, the route does not match.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct NegatedConditions {
    /// Regular expression that the [normalized](crate::normalized_path) path must not match.
    pub path_regex: Option<RouteRegex>,
    /// Extensions that the path must not have.
    pub extensions: Vec<String>,
    /// Headers that the request must not have, or that must not have this value.
    pub headers: Vec<Expected>,
    /// Query parameters that the request must not have, or that must not have this value.
    pub query: Vec<Expected>,
}

impl SpecialConditions {
    /// Returns the number of conditions. A list of extensions counts as one condition.
    pub(super) fn count(&self) -> usize {
        let NegatedConditions { path_regex, extensions, headers, query } = &self.negated;
        usize::from(self.path_regex.is_some())
            + usize::from(!self.extensions.is_empty())
            + usize::from(path_regex.is_some())
            + usize::from(!extensions.is_empty())
            + headers.len()
            + query.len()
    }

    /// Returns the first condition that a request with the normalized path `path` does not meet.
    pub(super) fn unfulfilled(&self, head: &RequestHead<'_>, path: &[u8]) -> Option<Unfulfilled<'_>> {
        let not = &self.negated;
        if !self.extensions.is_empty() && !has_extension(path, &self.extensions) {
            return Some(Unfulfilled::Extensions(&self.extensions));
        }
        if has_extension(path, &not.extensions) {
            return Some(Unfulfilled::NotExtensions(&not.extensions));
        }
        if let Some(header) = not.headers.iter().find(|expected| has_field(head, expected)) {
            return Some(Unfulfilled::NotHeader(header));
        }
        if let Some(parameter) = not.query.iter().find(|expected| has_parameter(head, expected)) {
            return Some(Unfulfilled::NotQuery(parameter));
        }
        if let Some(regex) = self.path_regex.as_ref().filter(|regex| !regex.is_match(path)) {
            return Some(Unfulfilled::PathRegex(regex));
        }
        not.path_regex.as_ref().filter(|regex| regex.is_match(path)).map(Unfulfilled::NotPathRegex)
    }

    /// Returns `true` if every request that meets the conditions in `others` also meets these conditions. Two
    /// regular expressions are compared as texts.
    pub(super) fn include(&self, others: &Self) -> bool {
        let (not, others_not) = (&self.negated, &others.negated);
        let has_regex = self.path_regex.is_none() || self.path_regex == others.path_regex;
        let has_extensions = self.extensions.is_empty()
            || (!others.extensions.is_empty() && all_in(&others.extensions, &self.extensions));
        let has_not_regex = not.path_regex.is_none() || not.path_regex == others_not.path_regex;
        // A condition `not A` holds if the other route has `not B`, and if each request that meets A also
        // meets B.
        has_regex
            && has_extensions
            && has_not_regex
            && all_in(&not.extensions, &others_not.extensions)
            && not.headers.iter().all(|own| includes_any(&others_not.headers, own, is_same_field))
            && not.query.iter().all(|own| includes_any(&others_not.query, own, |a, b| a == b))
    }
}

fn all_in(some: &[String], all: &[String]) -> bool {
    some.iter().all(|one| all.contains(one))
}

/// Returns `true` if a request that meets `own` meets one of `others`.
fn includes_any(others: &[Expected], own: &Expected, is_same: impl Fn(&str, &str) -> bool + Copy) -> bool {
    others.iter().any(|other| include_all(std::slice::from_ref(other), std::slice::from_ref(own), is_same))
}

/// Returns `true` if the last segment of `path` has one of these extensions.
fn has_extension(path: &[u8], extensions: &[String]) -> bool {
    if extensions.is_empty() {
        return false;
    }
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let segment = &path[start..];
    let extension = segment.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0);
    extension.is_some_and(|dot| extensions.iter().any(|own| own.as_bytes() == &segment[dot + 1..]))
}

impl fmt::Display for SpecialConditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not = &self.negated;
        let mut all = Vec::new();
        all.extend(self.path_regex.iter().map(|regex| format!("path matching {regex}")));
        all.extend(extensions_text("extension", &self.extensions));
        all.extend(not.path_regex.iter().map(|regex| format!("path not matching {regex}")));
        all.extend(extensions_text("not extension", &not.extensions));
        all.extend(not.headers.iter().map(|expected| format!("without header {expected}")));
        all.extend(not.query.iter().map(|expected| format!("without query {expected}")));
        f.write_str(&all.join(", "))
    }
}

fn extensions_text(start: &str, extensions: &[String]) -> Option<String> {
    (!extensions.is_empty()).then(|| format!("{start} {}", extensions.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn methods(names: &[&str]) -> Conditions {
        Conditions { methods: names.iter().map(|&name| name.to_owned()).collect(), ..Conditions::default() }
    }

    fn header(name: &str, value: Option<&str>) -> Conditions {
        let value = value.map_or(ExpectedValue::Any, |value| ExpectedValue::Text(value.to_owned()));
        let expected = Expected { name: name.to_owned(), value };
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

    fn extensions(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn extension_is_the_text_after_the_last_dot_of_the_last_segment() {
        for (path, expected) in [
            ("/a.php", true),
            ("/x/a.b.php", true),
            ("/a.PHP", false),
            ("/a.php/b", false),
            ("/a.php5", false),
            ("/a.", false),
            ("/.php", false),
            ("/php", false),
            ("/", false),
            ("", false),
        ] {
            assert_eq!(has_extension(path.as_bytes(), &extensions(&["html", "php"])), expected, "{path}");
        }
    }

    fn not_header(value: ExpectedValue) -> SpecialConditions {
        let headers = vec![Expected { name: "A".to_owned(), value }];
        let negated = NegatedConditions { headers, ..NegatedConditions::default() };
        SpecialConditions { negated, ..SpecialConditions::default() }
    }

    #[test]
    fn special_conditions_include_stricter_conditions() {
        let any = SpecialConditions::default;
        let of = |names: &[&str]| SpecialConditions { extensions: extensions(names), ..any() };
        assert!(any().include(&of(&["a"])) && !of(&["a"]).include(&any()));
        assert!(of(&["a", "b"]).include(&of(&["b"])) && !of(&["b"]).include(&of(&["a", "b"])));
        let matching =
            |text: &str| SpecialConditions { path_regex: Some(RouteRegex::parse(text).unwrap()), ..any() };
        assert!(matching("a").include(&matching("a")) && !matching("a").include(&matching("b")));
        assert!(any().include(&matching("a")) && !matching("a").include(&any()));
        let text = |text: &str| ExpectedValue::Text(text.to_owned());
        assert!(not_header(text("1")).include(&not_header(ExpectedValue::Any)));
        assert!(!not_header(ExpectedValue::Any).include(&not_header(text("1"))));
        assert!(
            not_header(text("1")).include(&not_header(text("1"))) && !not_header(text("1")).include(&any())
        );
    }
}
