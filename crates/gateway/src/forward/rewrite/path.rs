//! Rewrites the path of the request to the upstream.

use std::fmt;

use thruway_message::RequestTarget;
use thruway_server::Request;

use super::super::request_id::RequestId;
use super::InvalidRewrite;
use super::template::{Placeholder, RoutePaths, Template};
use crate::routes::has_dot_segment;

/// Template for the path of the request to the upstream. The placeholders are `{path}`, `{rest}` (the part of
/// the path after the prefix of the route), the parameters of the route's path pattern, and the groups of its
/// regular expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathRewrite(Template);

/// The error for a request path with `.` or `..`. With these segments, a request could leave the fixed path
/// in the template.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PathTraversal;

impl PathRewrite {
    /// Parses `template` for a route that matches `paths`.
    ///
    /// # Errors
    /// Returns an error if the template is invalid.
    pub fn new<'r>(template: &str, paths: impl Into<RoutePaths<'r>>) -> Result<Self, InvalidRewrite> {
        let paths = paths.into();
        let place = |name: &str| match Placeholder::named(name, paths)? {
            place @ (Placeholder::Path
            | Placeholder::Rest
            | Placeholder::Parameter(_)
            | Placeholder::Group(_)) => Some(place),
            _ => None,
        };
        let template = Template::parse(template, place)?.with_groups_of(paths);
        match template.parts.first() {
            Some((start, Placeholder::Path | Placeholder::Rest)) if start.is_empty() => {}
            Some((start, _)) if start.starts_with('/') => {}
            None if template.end.starts_with('/') => {}
            _ => return Err(InvalidRewrite::Start),
        }
        if !template.literals().all(is_part_of_path) {
            return Err(InvalidRewrite::Bytes);
        }
        let is_doubled =
            |(before, place): &(String, Placeholder)| *place == Placeholder::Rest && before.ends_with('/');
        if template.parts.iter().any(is_doubled) {
            return Err(InvalidRewrite::Slash);
        }
        let literals: Vec<_> = template.literals().collect();
        if has_dot_segment(literals.join("x").as_bytes()) {
            return Err(InvalidRewrite::DotSegment);
        }
        Ok(Self(template))
    }

    /// Returns the rewritten target of `request`. The query stays unchanged. Returns `None` if the request
    /// target has no path.
    ///
    /// # Errors
    /// Returns an error if the path contains a control character, or a segment that some servers read as `.`
    /// or `..`. Such a server would read the path as another path.
    pub(crate) fn target(&self, request: &Request<'_>) -> Result<Option<String>, PathTraversal> {
        if !matches!(request.target(), RequestTarget::Origin(_) | RequestTarget::Absolute(_)) {
            return Ok(None);
        }
        let path = self.0.fill(request, &RequestId::default());
        if has_dot_segment(path.as_bytes()) {
            return Err(PathTraversal);
        }
        // The target begins with a single slash, because some servers read the text after two slashes as a
        // host.
        let mut target = format!("/{}", path.trim_start_matches('/'));
        if let Some(query) = request.query_string() {
            target.push('?');
            target.push_str(query);
        }
        Ok(Some(target))
    }

    /// Returns the text that replaces the prefix of the route. Returns `None` if the template also changes
    /// another part of the path.
    pub(super) fn replaced_prefix(&self) -> Option<&str> {
        match &self.0.parts[..] {
            [(start, Placeholder::Rest)] if self.0.end.is_empty() => Some(start),
            _ => None,
        }
    }
}

/// Returns `true` if `text` is valid in a path (RFC 3986 §3.3) and contains no encoded control character.
fn is_part_of_path(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().all(|(i, byte)| match byte {
        b'%' => match bytes.get(i + 1..i + 3) {
            Some([b'0' | b'1', _] | [b'7', b'f' | b'F']) | None => false,
            Some(digits) => digits.iter().all(u8::is_ascii_hexdigit),
        },
        byte => byte.is_ascii_alphanumeric() || b"-._~/:@!$&'()*+,;=".contains(byte),
    })
}

/// Writes the template as configured.
impl fmt::Display for PathRewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PathMatch, PathPattern};

    fn prefix(template: &str) -> Result<PathRewrite, InvalidRewrite> {
        PathRewrite::new(template, &PathMatch::Prefix("/api".to_owned()))
    }

    #[test]
    fn invalid_path_template_is_an_error() {
        for (template, error) in [
            ("", InvalidRewrite::Start),
            ("a{rest}", InvalidRewrite::Start),
            ("http://a{rest}", InvalidRewrite::Start),
            ("/a?b", InvalidRewrite::Bytes),
            ("/a b", InvalidRewrite::Bytes),
            ("/a\r\nHost: b", InvalidRewrite::Bytes),
            ("/é", InvalidRewrite::Bytes),
            ("/%zz", InvalidRewrite::Bytes),
            ("/%2", InvalidRewrite::Bytes),
            ("/a%00{rest}", InvalidRewrite::Bytes),
            ("/a%7f", InvalidRewrite::Bytes),
            ("/{{a", InvalidRewrite::Bytes),
            ("/a/../b", InvalidRewrite::DotSegment),
            ("/a/%2E%2e/b", InvalidRewrite::DotSegment),
            ("/a/.", InvalidRewrite::DotSegment),
            ("/a/..%20/b", InvalidRewrite::DotSegment),
            ("/v2/{rest}", InvalidRewrite::Slash),
            ("/{id}", InvalidRewrite::Placeholder),
            ("/{client}", InvalidRewrite::Placeholder),
            ("/{rest", InvalidRewrite::Braces),
        ] {
            assert_eq!(prefix(template).unwrap_err(), error, "{template}");
        }
        for template in ["{rest}", "{path}", "/v2{rest}", "/a%20b{path}", "/fixed", "/a..b/...{rest}"] {
            assert!(prefix(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn path_template_accepts_only_parameters_of_its_pattern() {
        let pattern = |text| PathMatch::Pattern(PathPattern::parse(text).unwrap());
        assert!(PathRewrite::new("/u/{id}/{*rest}", &pattern("/users/{id}/{*rest}")).is_err());
        assert!(PathRewrite::new("/u/{id}/{rest}", &pattern("/users/{id}/{*rest}")).is_ok());
        assert_eq!(PathRewrite::new("/u/{rest}", &pattern("/users/{id}")), Err(InvalidRewrite::Placeholder));
        let exact = PathMatch::Exact("/a".to_owned());
        assert_eq!(PathRewrite::new("/b{rest}", &exact), Err(InvalidRewrite::Placeholder));
    }

    #[test]
    fn replaced_prefix_is_known_only_if_the_rest_is_unchanged() {
        for (template, replaced) in [
            ("{rest}", Some("")),
            ("/v2{rest}", Some("/v2")),
            ("/v2{rest}/x", None),
            ("{path}", None),
            ("/a", None),
        ] {
            assert_eq!(prefix(template).unwrap().replaced_prefix(), replaced, "{template}");
        }
    }
}
