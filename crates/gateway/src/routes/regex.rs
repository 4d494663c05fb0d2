//! Regular expressions in the conditions of routes, and the texts that their groups capture.

use std::fmt;

use regex::bytes::{Regex, RegexBuilder};

use super::normal::NormalPath;

/// A regular expression for a path, a header or a query parameter, in the syntax of the crate
/// [`regex`](https://docs.rs/regex/latest/regex/#syntax). It matches if any part of the text matches: `^` and
/// `$` stand for the start and the end of the text. `\d`, `\w`, `\s` and `(?i)` apply to ASCII characters
/// only. The time of a search grows linearly with the text, so no client can cause a long search.
#[derive(Clone)]
pub struct RouteRegex(Regex);

/// Reason why a text is not a valid regular expression.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidRegex {
    /// The syntax is invalid. The text is the reason.
    Syntax(String),
    /// The compiled expression needs more than 1 MiB.
    Size,
}

impl RouteRegex {
    /// Compiles a regular expression.
    ///
    /// # Errors
    /// Returns an error if the syntax is invalid, or if the compiled expression is too large.
    pub fn parse(text: &str) -> Result<Self, InvalidRegex> {
        let built = RegexBuilder::new(text)
            .unicode(false)
            .size_limit(REGEX_BYTES_MAX)
            .dfa_size_limit(REGEX_BYTES_MAX)
            .build();
        built.map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => InvalidRegex::Size,
            error => {
                // The message of a syntax error has several lines, and its last line contains the reason.
                let message = error.to_string();
                let reason = message.lines().last().unwrap_or_default().trim_start_matches("error: ");
                InvalidRegex::Syntax(reason.to_owned())
            }
        })
    }

    /// Returns the expression as written in the config.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the placeholders for the groups: the names of the groups, and the numbers of groups without a
    /// name.
    pub fn group_names(&self) -> Vec<String> {
        let groups = self.0.capture_names().enumerate().skip(1);
        groups.map(|(number, name)| name.map_or_else(|| number.to_string(), str::to_owned)).collect()
    }

    /// Returns the number of the group with this name or number. Group 0 is the whole match.
    pub(crate) fn group(&self, name: &str) -> Option<usize> {
        let named = self.0.capture_names().position(|group| group == Some(name));
        let by_number = || name.parse().ok().filter(|number| *number < self.0.captures_len());
        // `01` and `+1` are no numbers of groups.
        named.or_else(by_number).filter(|number| named.is_some() || number.to_string() == name)
    }

    #[inline]
    pub(crate) fn is_match(&self, text: &[u8]) -> bool {
        self.0.is_match(text)
    }

    /// Returns the texts of all groups, as the client sent them in `path`. The normalized path determines
    /// where the groups begin and end. Groups that are no part of the match have an empty text.
    pub(crate) fn groups_of<'p>(&self, path: &'p str) -> Vec<&'p str> {
        let Ok(normal) = NormalPath::of(path.as_bytes()) else { return Vec::new() };
        let Some(captures) = self.0.captures(normal.bytes()) else { return Vec::new() };
        let text = |group: Option<regex::bytes::Match<'_>>| {
            let sent = group.and_then(|group| normal.as_sent(group.range()));
            sent.and_then(|sent| std::str::from_utf8(sent).ok()).unwrap_or_default()
        };
        captures.iter().map(text).collect()
    }
}

/// Compares the texts of two expressions.
impl PartialEq for RouteRegex {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for RouteRegex {}

impl fmt::Debug for RouteRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// Writes the expression as configured.
impl fmt::Display for RouteRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for InvalidRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(reason) => write!(f, "the regular expression is invalid: {reason}"),
            Self::Size => {
                f.write_str("the regular expression is too large: it needs more than 1 MiB of memory")
            }
        }
    }
}

impl std::error::Error for InvalidRegex {}

/// Maximum size of a compiled expression, and of the cache of its searches. A larger expression would need
/// much memory in each worker.
const REGEX_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn regex(text: &str) -> RouteRegex {
        RouteRegex::parse(text).unwrap()
    }

    #[test]
    fn expression_matches_a_part_of_the_text_unless_anchored() {
        for (text, path, matches) in [
            ("b", "/abc", true),
            ("^/b", "/a/b", false),
            (r"\.php$", "/a.php", true),
            (r"\.php$", "/a.php5", false),
            ("(?i)^/ADMIN$", "/admin", true),
            (r"^/\d+$", "/٣", false),
        ] {
            assert_eq!(regex(text).is_match(path.as_bytes()), matches, "{text} {path}");
        }
    }

    #[test]
    fn invalid_or_large_expression_is_an_error() {
        let reason = |text: &str| RouteRegex::parse(text).unwrap_err();
        assert_eq!(reason("("), InvalidRegex::Syntax("unclosed group".to_owned()));
        assert_eq!(
            reason("(?=a)"),
            InvalidRegex::Syntax(
                "look-around, including look-ahead and look-behind, is not supported".to_owned()
            )
        );
        assert_eq!(reason("(?:a{1000}){1000}"), InvalidRegex::Size);
    }

    #[test]
    fn groups_have_names_and_numbers() {
        let expression = regex("^/(?<lang>..)/(x)?(.*)$");
        assert_eq!(expression.group_names(), ["lang", "2", "3"]);
        for (name, group) in [
            ("lang", Some(1)),
            ("0", Some(0)),
            ("1", Some(1)),
            ("3", Some(3)),
            ("4", None),
            ("01", None),
            ("+1", None),
            ("other", None),
            ("", None),
        ] {
            assert_eq!(expression.group(name), group, "{name}");
        }
    }

    #[test]
    fn groups_are_texts_as_the_client_sent_them() {
        let groups = |text: &str, path: &'static str| regex(text).groups_of(path);
        assert_eq!(groups("^/(?<lang>..)/(x)?(.*)$", "/de/a%2Fb"), ["/de/a%2Fb", "de", "", "a%2Fb"]);
        assert_eq!(groups("^/users/([^/]*)$", "//x/../%75sers/%35"), ["/%75sers/%35", "%35"]);
        assert!(groups("^/b$", "/a").is_empty() && groups("a", "/a/%").is_empty());
    }
}
