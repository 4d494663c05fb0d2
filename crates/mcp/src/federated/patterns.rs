//! Globs and URI templates: patterns of literal texts with wildcards between them.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A pattern for names or URIs. `*` matches any characters, also none. All other characters match themselves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Glob(Box<str>);

/// The error for a text that is empty, or longer than 256 bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidGlob(pub String);

impl Glob {
    /// Returns `true` if the glob matches the whole `text`.
    pub fn matches(&self, text: &str) -> bool {
        matches_glob(&self.0, text)
    }

    /// Returns `true` if the glob matches the whole `text`, without regard to the case of ASCII letters.
    pub fn matches_in_any_case(&self, text: &str) -> bool {
        matches_glob(&self.0.to_ascii_lowercase(), &text.to_ascii_lowercase())
    }

    /// Returns `true` if the glob matches at least one text that begins with `prefix` and is longer than
    /// `prefix`.
    pub fn can_match_after(&self, prefix: &str) -> bool {
        match self.0.split_once('*') {
            Some((start, _)) => start.starts_with(prefix) || prefix.starts_with(start),
            None => self.0.len() > prefix.len() && self.0.starts_with(prefix),
        }
    }

    /// Returns the glob as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for Glob {
    type Error = InvalidGlob;

    fn try_from(glob: &str) -> Result<Self, InvalidGlob> {
        let is_valid = (1..=GLOB_BYTES_MAX).contains(&glob.len());
        if is_valid { Ok(Self(glob.into())) } else { Err(InvalidGlob(glob.into())) }
    }
}

impl fmt::Display for InvalidGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid glob `{}`: expected 1 to {GLOB_BYTES_MAX} bytes", self.0)
    }
}

impl core::error::Error for InvalidGlob {}

/// Maximum length of a glob, in bytes.
const GLOB_BYTES_MAX: usize = 256;

/// Returns `true` if `glob` matches the whole `name`. In a glob, `*` matches any characters, also none.
fn matches_glob(glob: &str, name: &str) -> bool {
    has_literals(glob.split('*'), name)
}

/// Returns the number of literal bytes in the URI template `template` (RFC 6570) if the template can produce
/// `uri`. The template that matches with the most literal bytes describes a URI best.
///
/// Each expression matches any characters, also none. Therefore, this function may accept a URI that the
/// template cannot produce. Returns `None` for a template with unbalanced braces.
pub fn matches_template(template: &str, uri: &str) -> Option<usize> {
    let mut pieces = template.split('{');
    let mut literals = Vec::from_iter(pieces.next());
    for piece in pieces {
        let (_, literal) = piece.split_once('}')?;
        literals.push(literal);
    }
    if literals.iter().any(|literal| literal.contains('}')) {
        return None;
    }
    let length = literals.iter().map(|literal| literal.len()).sum();
    has_literals(literals.into_iter(), uri).then_some(length)
}

/// Returns `true` if `text` consists of the literals in this order, with any characters between them.
fn has_literals<'l>(mut literals: impl DoubleEndedIterator<Item = &'l str>, text: &str) -> bool {
    let Some(mut rest) = text.strip_prefix(literals.next().unwrap_or_default()) else { return false };
    let Some(last) = literals.next_back() else { return rest.is_empty() };
    for literal in literals {
        match rest.find(literal) {
            Some(at) => rest = &rest[at + literal.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_characters() {
        for (glob, name) in [
            ("a", "a"),
            ("*", ""),
            ("*", "a"),
            ("a*", "a"),
            ("a*", "ab"),
            ("*issue*", "read_issue"),
            ("*issue*", "issue"),
            ("a*b*c", "abc"),
            ("a*b*c", "axbxbxc"),
            ("*ab", "aab"),
            ("a**b", "ab"),
            ("*ä*", "xäy"),
        ] {
            assert!(matches_glob(glob, name), "{glob} should match {name}");
        }
        for (glob, name) in [
            ("a", "ab"),
            ("a", "ba"),
            ("a", "A"),
            ("a*", "ba"),
            ("*a", "ab"),
            ("ab*bc", "abc"),
            ("a*b*c", "acb"),
            ("a?", "ab"),
            ("", "a"),
        ] {
            assert!(!matches_glob(glob, name), "{glob} should not match {name}");
        }
    }

    #[test]
    fn expression_of_a_template_matches_any_characters() {
        for (template, uri, length) in [
            ("test://a", "test://a", Some(8)),
            ("file:///{+path}", "file:///a/b", Some(8)),
            ("db://{table}/rows/{id}", "db://t/rows/1", Some(11)),
            ("x:{?a,b}", "x:?a=1", Some(2)),
            ("{+uri}", "x:", Some(0)),
            ("file:///{+path}", "http://a", None),
            ("db://{table}/rows/{id}", "db://t/columns/1", None),
            ("x:{a}.txt", "x:a.md", None),
            ("x:{a", "x:a", None),
            ("x:a}", "x:a}", None),
            ("x:{a}}", "x:a}", None),
        ] {
            assert_eq!(matches_template(template, uri), length, "{template} {uri}");
        }
    }
}
