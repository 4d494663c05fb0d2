//! Reads request files, which contain one JSON object on each line.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

/// A line of a request file. If a key is missing, the option for all requests applies.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestLine {
    /// The URL. The path and the query of the URL may contain placeholders.
    pub url: String,
    /// The method.
    pub method: Option<String>,
    /// Additional header fields.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body, which may contain placeholders.
    pub content: Option<String>,
    /// The weight of the request: a line of weight 2 is sent twice as often as a line of weight 1.
    pub weight: Option<u32>,
    /// The expected status.
    pub status: Option<u16>,
    /// The expected size of the body, in bytes.
    pub length: Option<u64>,
    /// The expected SHA-256 digest of the body.
    pub sha256: Option<String>,
}

/// Parses the lines of a request file. Ignores empty lines.
///
/// # Errors
/// Returns an error if a line is invalid, or if the file contains no request.
pub fn read_lines(text: &str) -> Result<Vec<RequestLine>, InvalidRequestsFile> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = lines.map(|(index, line)| {
        serde_json::from_str(line)
            .map_err(|error| InvalidRequestsFile { line: index + 1, message: error.to_string() })
    });
    let read: Vec<_> = read.collect::<Result<_, _>>()?;
    if read.is_empty() {
        return Err(InvalidRequestsFile { line: 1, message: "it contains no request".to_owned() });
    }
    Ok(read)
}

/// Error for an invalid line of a request file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidRequestsFile {
    /// The number of the line, counted from 1.
    pub line: usize,
    message: String,
}

impl InvalidRequestsFile {
    /// Hint that shows the correct form of a line.
    pub const HINT: &str = r#"each line is a JSON object, as `{"url": "http://127.0.0.1:8080/item/{n}", "method": "PUT", "content": "{random}", "weight": 2}`; it may have `headers`, `status`, `length` and `sha256` too"#;
}

impl fmt::Display for InvalidRequestsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `serde_json` reports a line number within its input. Here, the input is a single line, so the
        // reported line number is useless.
        let message = self.message.replace(" at line 1 column ", ", column ");
        let message = TYPES.iter().fold(message, |message, (name, words)| message.replace(name, words));
        write!(f, "line {}: {message}", self.line)
    }
}

/// Rust type names in messages of `serde_json`, with the names that JSON uses.
const TYPES: [(&str, &str); 7] = [
    ("invalid type: map", "invalid type: object"),
    ("invalid type: sequence", "invalid type: array"),
    ("expected struct RequestLine", "expected an object"),
    ("expected a map", "expected an object"),
    ("expected u16", "expected a whole number up to 65535"),
    ("expected u32", "expected a whole number up to 4294967295"),
    ("expected u64", "expected a whole number of at least 0"),
];

impl std::error::Error for InvalidRequestsFile {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_lines_are_parsed() {
        let text = "{\"url\": \"http://a/\"}\n\n{\"url\": \"http://a/b\", \"weight\": 3, \"headers\": {\"A\": \"b\"}}\n";
        let lines = read_lines(text).unwrap();
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[1].weight, lines[1].headers["A"].as_str()), (Some(3), "b"));
    }

    #[test]
    fn error_names_the_invalid_line() {
        let line = |text| read_lines(text).unwrap_err().to_string();
        assert_eq!(line("\n{\"url\": 1}"), "line 2: invalid type: integer `1`, expected a string, column 9");
        assert!(line("{\"uri\": \"a\"}").starts_with("line 1: unknown field `uri`"));
        assert_eq!(line("\n"), "line 1: it contains no request");
        // Regression test: the message contained the names of Rust types.
        assert!(line("1").starts_with("line 1: invalid type: integer `1`, expected an object, column"));
        let weight = line("{\"url\": \"a\", \"weight\": []}");
        assert!(
            weight.starts_with("line 1: invalid type: array, expected a whole number up to 4294967295, ")
        );
    }
}
