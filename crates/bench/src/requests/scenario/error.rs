//! Errors in scenario files, with their line and key.

use std::fmt;
use std::ops::Range;

/// Error in a scenario file, or in a data file that it names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidScenario {
    /// Path of the file.
    pub file: String,
    /// Number of the line, counted from 1. 0 if the error concerns the whole file.
    pub line: usize,
    /// Name of the key or column. Empty if the error does not concern a key.
    pub key: String,
    message: String,
}

impl InvalidScenario {
    pub(super) fn new(
        file: impl Into<String>,
        line: usize,
        key: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { file: file.into(), line, key: key.into(), message: message.into() }
    }

    /// Creates the error for the value at the bytes `span` of `text`.
    pub(super) fn at(file: &str, text: &str, span: &Range<usize>, key: &str, message: String) -> Self {
        Self::new(file, line_of(text, span.start), key, message)
    }

    /// Converts an error of the TOML parser.
    pub(super) fn of_toml(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        let message = TYPES
            .iter()
            .fold(error.message().to_owned(), |message, (name, words)| message.replace(name, words));
        Self::new(file, line_of(text, at), key_at(text, at), message.replace('\n', ", "))
    }
}

impl fmt::Display for InvalidScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, key, message } = self;
        write!(f, "`{}`", file.escape_debug())?;
        if *line > 0 {
            write!(f, ", line {line}")?;
        }
        if !key.is_empty() {
            write!(f, ", key `{}`", key.escape_debug())?;
        }
        write!(f, ": {}", escaped(message))
    }
}

impl std::error::Error for InvalidScenario {}

/// Escapes control characters. Messages quote values of the file, and a terminal would interpret such characters.
pub(super) fn escaped(message: &str) -> String {
    let escaped = message.chars().map(|character| {
        if character.is_control() { character.escape_debug().to_string() } else { character.to_string() }
    });
    escaped.collect()
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// Returns the key at the offset `at`. Otherwise, returns the last key before `at` in the same line, because `at`
/// is in its value. Returns an empty text if the line has no key before `at`.
fn key_at(text: &str, at: usize) -> String {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'"');
    let start = text.as_bytes()[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let end = text.as_bytes()[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |end| at + end);
    let line = &text.as_bytes()[start..end];
    let in_line = at - start;
    let name_before = |equals: usize| {
        let before = line[..equals].trim_ascii_end();
        let length = before.iter().rev().take_while(|byte| is_name(byte)).count();
        String::from_utf8_lossy(&before[before.len() - length..]).into_owned()
    };
    let begins = line[in_line..].iter().take_while(|byte| is_name(byte)).count();
    let is_key = line[in_line + begins..].trim_ascii_start().starts_with(b"=");
    if begins > 0 && is_key {
        return String::from_utf8_lossy(&line[in_line..in_line + begins]).into_owned();
    }
    line[..in_line].iter().rposition(|byte| *byte == b'=').map_or_else(String::new, name_before)
}

/// Rust type names in messages of the TOML parser, with words that users know.
const TYPES: [(&str, &str); 6] = [
    ("invalid type: map", "invalid type: table"),
    ("invalid type: sequence", "invalid type: array"),
    ("expected a map", "expected a table"),
    ("expected a sequence", "expected an array"),
    ("expected u16", "expected a whole number up to 65535"),
    ("expected u32", "expected a whole number up to 4294967295"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_has_no_control_characters() {
        let error = InvalidScenario::new("a\n.toml", 1, "b\u{1b}", "`\u{1b}[2J\r\\` is wrong");
        let text = r"`a\n.toml`, line 1, key `b\u{1b}`: `\u{1b}[2J\r\` is wrong";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn key_is_found_by_position() {
        let text = "a = 1\n\n[b]\nheaders = { One = \"x\", Two = 5 }\nnew = 1\n";
        for (part, key, line) in [("1", "a", 1), ("\"x\"", "One", 4), ("5", "Two", 4), ("new", "new", 5)] {
            let at = text.find(part).unwrap();
            assert_eq!((key_at(text, at).as_str(), line_of(text, at)), (key, line), "{part}");
        }
        assert_eq!(key_at(text, text.find("[b]").unwrap()), "");
        assert_eq!(key_at("", 0), "");
    }
}
