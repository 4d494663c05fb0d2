//! Conditions that few routes have: regular expressions on the path, file extensions, and negated conditions.

use std::fmt;

use thruway_message::RequestHead;

use super::conditions::{Expected, Unfulfilled, has_field, has_parameter, include_all, is_same_field};
use super::regex::RouteRegex;

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
    use crate::routes::ExpectedValue;

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
    fn conditions_include_stricter_conditions() {
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
