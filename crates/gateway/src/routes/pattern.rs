//! Path patterns with parameters, such as `/users/{id}/posts`.

use std::cmp::Reverse;
use std::fmt;
use std::ops::ControlFlow;

use super::table::Table;

/// A path pattern with parameters, such as `/users/{id}`, `/files/{name}.json`, or `/static/{*rest}` for
/// the rest of the path. A parameter matches at least one byte.
#[derive(Clone, Debug)]
pub struct PathPattern {
    text: String,
    segments: Vec<Segment>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Segment {
    Fixed(String),
    Parameter(Affixes),
    /// The remaining path (`{*name}`).
    Rest,
}

/// The fixed texts before and after a parameter in its path segment.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Affixes {
    before: String,
    after: String,
}

/// Reason why a text is not a valid path pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidPattern {
    /// The braces `{` and `}` are not balanced.
    Braces,
    /// A parameter has no name.
    NoName,
    /// The text has no parameter.
    NoParameter,
    /// The text does not begin with `/`.
    NoSlash,
    /// `{*name}` is not the whole last segment.
    RestNotLast,
    /// A segment has two parameters, so it is unclear where the first parameter ends.
    TwoParameters,
}

impl PathPattern {
    /// Parses a path pattern.
    ///
    /// # Errors
    /// Returns an error if `text` is not a valid path pattern.
    pub fn parse(text: &str) -> Result<Self, InvalidPattern> {
        let path = text.strip_prefix('/').ok_or(InvalidPattern::NoSlash)?;
        let segments: Vec<Segment> = path.split('/').map(Segment::parse).collect::<Result<_, _>>()?;
        if segments.iter().rev().skip(1).any(|segment| *segment == Segment::Rest) {
            return Err(InvalidPattern::RestNotLast);
        }
        if segments.iter().all(|segment| matches!(segment, Segment::Fixed(_))) {
            return Err(InvalidPattern::NoParameter);
        }
        Ok(Self { text: text.to_owned(), segments })
    }

    /// Returns the pattern as written in the config.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Compares two patterns. The names of their parameters do not matter.
impl PartialEq for PathPattern {
    fn eq(&self, other: &Self) -> bool {
        self.segments == other.segments
    }
}

impl Eq for PathPattern {}

impl Segment {
    fn parse(text: &str) -> Result<Self, InvalidPattern> {
        let Some((before, rest)) = text.split_once('{') else {
            return if text.contains('}') {
                Err(InvalidPattern::Braces)
            } else {
                Ok(Self::Fixed(text.into()))
            };
        };
        let (name, after) = rest.split_once('}').ok_or(InvalidPattern::Braces)?;
        if after.contains('{') {
            return Err(InvalidPattern::TwoParameters);
        }
        if [before, name, after].iter().any(|part| part.contains(['{', '}'])) {
            return Err(InvalidPattern::Braces);
        }
        match name.strip_prefix('*') {
            _ if matches!(name, "" | "*") => Err(InvalidPattern::NoName),
            Some(_) if before.is_empty() && after.is_empty() => Ok(Self::Rest),
            Some(_) => Err(InvalidPattern::RestNotLast),
            None => Ok(Self::Parameter(Affixes { before: before.into(), after: after.into() })),
        }
    }
}

impl Affixes {
    fn fit(&self, segment: &[u8]) -> bool {
        // Even a comparison with an empty text costs time: see `table::position`.
        segment.len() > self.len()
            && (self.before.is_empty() || segment.starts_with(self.before.as_bytes()))
            && (self.after.is_empty() || segment.ends_with(self.after.as_bytes()))
    }

    /// Returns the sort key of a parameter. A parameter with more fixed bytes around it comes first. If these
    /// numbers are equal, the parameter with more fixed bytes before it comes first. The key also contains
    /// the fixed texts, so that the result does not depend on the order of the routes in the config.
    fn rank(&self) -> impl Ord {
        (Reverse(self.len()), Reverse(self.before.len()), &self.before, &self.after)
    }

    const fn len(&self) -> usize {
        self.before.len() + self.after.len()
    }
}

/// Path patterns as a tree of their segments. The time of a lookup depends on the number of path segments,
/// but not on the number of patterns.
///
/// The order of two patterns depends on the first segment in which they differ. A fixed segment comes first.
/// Segments with a parameter come next, in the order of [`Affixes::rank`]. A parameter for the rest of the
/// path comes last.
#[derive(Debug, Default)]
pub(super) struct PatternTree {
    /// The routes of the pattern that ends at this node.
    routes: Vec<usize>,
    fixed: Table<Self>,
    /// Subtrees of segments with a parameter, in the order of [`Affixes::rank`].
    parameters: Vec<(Affixes, Self)>,
    /// The routes of patterns in which `{*rest}` follows this segment.
    rest: Vec<usize>,
}

impl PatternTree {
    /// Returns the routes of `pattern`, in evaluation order.
    pub(super) fn entry(&mut self, pattern: &PathPattern) -> &mut Vec<usize> {
        let mut node = self;
        for segment in &pattern.segments {
            node = match segment {
                Segment::Fixed(text) => node.fixed.entry(text.as_bytes()),
                Segment::Parameter(affixes) => node.parameter(affixes),
                // A parameter for the rest of the path is always the last segment.
                Segment::Rest => return &mut node.rest,
            };
        }
        &mut node.routes
    }

    fn parameter(&mut self, affixes: &Affixes) -> &mut Self {
        let known = self.parameters.iter().position(|(other, _)| other == affixes);
        let place = known.unwrap_or_else(|| {
            let place = self.parameters.partition_point(|(other, _)| other.rank() < affixes.rank());
            self.parameters.insert(place, (affixes.clone(), Self::default()));
            place
        });
        &mut self.parameters[place].1
    }

    /// Calls `visit` with the routes of all patterns that match `path`, most specific pattern first. The
    /// calls stop when `visit` returns `Break`.
    pub(super) fn try_each<B>(
        &self,
        path: &[u8],
        visit: &mut impl FnMut(usize) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        match path {
            [b'/', segments @ ..] if !self.is_empty() => self.try_segments(Some(segments), visit),
            _ => ControlFlow::Continue(()),
        }
    }

    const fn is_empty(&self) -> bool {
        self.fixed.is_empty() && self.parameters.is_empty() && self.rest.is_empty()
    }

    fn try_segments<B>(
        &self,
        segments: Option<&[u8]>,
        visit: &mut impl FnMut(usize) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let Some(segments) = segments else {
            return self.routes.iter().try_for_each(|route| visit(*route));
        };
        // Segments are so short that a call of `memchr` would cost more than it saves.
        let end = segments.iter().position(|byte| *byte == b'/');
        let segment = &segments[..end.unwrap_or(segments.len())];
        let following = end.map(|end| &segments[end + 1..]);
        if let Some(node) = self.fixed.get(segment) {
            node.try_segments(following, visit)?;
        }
        for (affixes, node) in &self.parameters {
            if affixes.fit(segment) {
                node.try_segments(following, visit)?;
            }
        }
        if segments.is_empty() {
            return ControlFlow::Continue(());
        }
        self.rest.iter().try_for_each(|route| visit(*route))
    }
}

impl fmt::Display for InvalidPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Braces => "braces are not balanced: write a parameter as `{name}`",
            Self::NoName => "a parameter needs a name: `{name}`, or `{*name}` for the rest of the path",
            Self::NoParameter => "a pattern needs a parameter: `{name}`",
            Self::NoSlash => "a pattern must start with `/`",
            Self::RestNotLast => "`{*name}` matches the rest of the path: it must be the whole last segment",
            Self::TwoParameters => "a path segment must not have two parameters",
        })
    }
}

impl std::error::Error for InvalidPattern {}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(patterns: &[&str], path: &str) -> Vec<String> {
        let mut tree = PatternTree::default();
        for (route, pattern) in patterns.iter().enumerate() {
            tree.entry(&PathPattern::parse(pattern).unwrap()).push(route);
        }
        let mut found = Vec::new();
        let _ = tree.try_each(path.as_bytes(), &mut |route| {
            found.push(patterns[route].to_owned());
            ControlFlow::<()>::Continue(())
        });
        found
    }

    #[test]
    fn parameter_matches_one_nonempty_segment() {
        let patterns = ["/users/{id}", "/users/{id}/posts/{post}"];
        assert_eq!(found(&patterns, "/users/5"), ["/users/{id}"]);
        assert_eq!(found(&patterns, "/users/5/posts/6"), ["/users/{id}/posts/{post}"]);
        for path in ["/users", "/users/", "/users/5/", "/users/5/posts", "/users/5/posts/", "/", "", "*"] {
            assert!(found(&patterns, path).is_empty(), "{path}");
        }
    }

    #[test]
    fn matching_patterns_are_found_most_specific_first() {
        let patterns = [
            "/{*all}",
            "/{kind}/{id}",
            "/users/{*rest}",
            "/users/{id}",
            "/users/v{id}.json",
            "/users/{id}.json",
        ];
        let expected = [
            "/users/v{id}.json",
            "/users/{id}.json",
            "/users/{id}",
            "/users/{*rest}",
            "/{kind}/{id}",
            "/{*all}",
        ];
        assert_eq!(found(&patterns, "/users/v1.json"), expected);
        assert_eq!(found(&patterns, "/users/.json"), expected[2..]);
        assert_eq!(found(&patterns, "/users/a/b"), ["/users/{*rest}", "/{*all}"]);
        assert_eq!(found(&patterns, "/users/"), ["/{*all}"]);
        assert!(found(&patterns, "/").is_empty());
    }

    #[test]
    fn pattern_equality_ignores_parameter_names() {
        let pattern = |text| PathPattern::parse(text).unwrap();
        assert_eq!(pattern("/a/{b}"), pattern("/a/{c}"));
        assert_ne!(pattern("/a/{b}"), pattern("/a/{*b}"));
        assert_ne!(pattern("/a/{b}"), pattern("/a/x{b}"));
    }

    #[test]
    fn invalid_pattern_is_an_error() {
        for (text, error) in [
            ("a/{b}", InvalidPattern::NoSlash),
            ("/a", InvalidPattern::NoParameter),
            ("/{}", InvalidPattern::NoName),
            ("/{*}", InvalidPattern::NoName),
            ("/{a", InvalidPattern::Braces),
            ("/a}", InvalidPattern::Braces),
            ("/a}{b}", InvalidPattern::Braces),
            ("/{{a}", InvalidPattern::Braces),
            ("/{a}{b}", InvalidPattern::TwoParameters),
            ("/{*a}/b", InvalidPattern::RestNotLast),
            ("/x{*a}", InvalidPattern::RestNotLast),
        ] {
            assert_eq!(PathPattern::parse(text), Err(error), "{text}");
        }
    }
}
