//! Extracts values from responses.

use regex::bytes::{Regex, RegexBuilder};
use serde_json::Value;
use thruway_message::{FieldLines, FieldName};

use super::data::as_text;
use super::error::escaped;

/// A value that a step extracts from its response.
#[derive(Debug)]
pub(super) struct Extraction {
    /// Name of the variable.
    pub(super) name: String,
    /// Index of the variable among the extracted values.
    pub(super) slot: usize,
    pub(super) place: Place,
    /// Value if the response does not contain the value. Without a default, the step fails.
    pub(super) default: Option<String>,
}

/// The place of a value in a response.
#[derive(Debug)]
pub(super) enum Place {
    /// JSON pointer into the body (RFC 6901).
    Json(String),
    /// The first header with this name.
    Header(String),
    /// The first match in the body: its first group, or the whole match without a group.
    Regex(Regex),
}

impl Place {
    /// Parses a JSON pointer.
    ///
    /// # Errors
    /// Returns a message if `text` is not a JSON pointer.
    pub(super) fn json(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.starts_with('/') {
            return Ok(Self::Json(text.to_owned()));
        }
        let pointer = text.trim_start_matches(['$', '.']).replace('.', "/");
        Err(format!("a JSON pointer begins with `/`, such as `/{pointer}`"))
    }

    /// Parses the name of a header.
    ///
    /// # Errors
    /// Returns a message if `name` is not a valid name.
    pub(super) fn header(name: &str) -> Result<Self, String> {
        FieldName::new(name.as_bytes()).map_err(|_| "it is not a valid header name".to_owned())?;
        Ok(Self::Header(name.to_owned()))
    }

    /// Compiles a regular expression.
    ///
    /// # Errors
    /// Returns a message if the expression is invalid.
    pub(super) fn regex(text: &str) -> Result<Self, String> {
        // A large expression could keep a worker busy for seconds with each response.
        RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).build().map(Self::Regex).map_err(|error| {
            // The message of a syntax error has several lines, and its last line contains the reason.
            let message = error.to_string();
            let reason = message.lines().last().unwrap_or_default().trim_start_matches("error: ");
            format!("the regular expression is invalid: {reason}")
        })
    }

    /// Returns `true` if the value is in the body.
    pub(super) const fn is_in_body(&self) -> bool {
        !matches!(self, Self::Header(_))
    }

    /// Returns `true` for a JSON pointer.
    pub(super) const fn is_json(&self) -> bool {
        matches!(self, Self::Json(_))
    }

    /// Returns the value of the header, if the value is in a header.
    pub(super) fn of_headers(&self, fields: FieldLines<'_>) -> Option<String> {
        let Self::Header(name) = self else { return None };
        fields.field(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    }

    /// Returns the value in the body. `json` is the parsed body, if it is JSON.
    pub(super) fn of_body(&self, body: &[u8], json: Option<&Value>) -> Option<String> {
        match self {
            Self::Header(_) => None,
            Self::Json(pointer) => json?.pointer(pointer).filter(|value| !value.is_null()).map(as_text),
            Self::Regex(regex) => {
                let groups = regex.captures(body)?;
                let found = groups.get(1).or_else(|| groups.get(0))?;
                Some(String::from_utf8_lossy(found.as_bytes()).into_owned())
            }
        }
    }

    /// Describes the place for an error message.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Json(pointer) => format!("the JSON pointer `{}`", escaped(pointer)),
            Self::Header(name) => format!("the header `{name}`"),
            Self::Regex(regex) => format!("the regular expression `{}`", escaped(regex.as_str())),
        }
    }
}

/// Maximum size of a compiled regular expression.
const REGEX_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn of_body(place: &Place, body: &str) -> Option<String> {
        let json = serde_json::from_str(body).ok();
        place.of_body(body.as_bytes(), json.as_ref())
    }

    #[test]
    fn values_are_found_in_bodies() {
        let body = r#"{"token": "a b", "items": [{"id": 7}], "none": null, "open": true}"#;
        for (pointer, value) in [
            ("/token", Some("a b")),
            ("/items/0/id", Some("7")),
            ("/items/0", Some(r#"{"id":7}"#)),
            ("/open", Some("true")),
            ("/none", None),
            ("/items/1", None),
        ] {
            assert_eq!(of_body(&Place::json(pointer).unwrap(), body).as_deref(), value, "{pointer}");
        }
        assert_eq!(of_body(&Place::json("/token").unwrap(), "no JSON"), None);
        let group = Place::regex(r#"name="csrf" value="([^"]+)""#).unwrap();
        assert_eq!(of_body(&group, r#"<input name="csrf" value="x1">"#).as_deref(), Some("x1"));
        assert_eq!(of_body(&Place::regex("[0-9]+").unwrap(), "a 42 7").as_deref(), Some("42"));
        assert_eq!(of_body(&group, "<input>"), None);
        assert!(group.is_in_body() && !Place::header("Location").unwrap().is_in_body());
    }

    #[test]
    fn size_of_a_regular_expression_is_limited() {
        let error = Place::regex("(a{500}){500}").unwrap_err();
        assert_eq!(
            error,
            "the regular expression is invalid: Compiled regex exceeds size limit of 1048576 bytes."
        );
    }

    #[test]
    fn invalid_places_are_explained() {
        for text in ["a/b", "a.b", "$.a.b"] {
            assert_eq!(Place::json(text).unwrap_err(), "a JSON pointer begins with `/`, such as `/a/b`");
        }
        assert_eq!(Place::header("a b").unwrap_err(), "it is not a valid header name");
        let regex = Place::regex("a(b").unwrap_err();
        assert_eq!(regex, "the regular expression is invalid: unclosed group");
    }
}
