//! Media types that are compressed.

use std::fmt;

use thruway_message::token::{is_token, trim_whitespace};

/// A media type, or a group of media types.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MediaType {
    /// One type such as `text/html`, in lower case.
    Exact(String),
    /// `text/*`: all types that begin with `text/`.
    Below(String),
    /// `*+json`: all types that end with `+json` (RFC 6839).
    Ending(String),
}

/// The error if a text is not a media type, such as `text/html`, `text/*` or `*+json`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidMediaType;

impl MediaType {
    /// Parses a type such as `text/html`, or a group of types: `text/*` or `*+json`.
    ///
    /// # Errors
    /// `text` is neither a media type nor a group of media types.
    pub fn parse(text: &str) -> Result<Self, InvalidMediaType> {
        let text = text.to_ascii_lowercase();
        let is_name = |name: &str| is_token(name.as_bytes()) && !name.contains('*');
        if let Some(suffix) = text.strip_prefix("*+") {
            return is_name(suffix).then(|| Self::Ending(format!("+{suffix}"))).ok_or(InvalidMediaType);
        }
        match text.split_once('/') {
            Some((top, "*")) if is_name(top) => Ok(Self::Below(format!("{top}/"))),
            Some((top, sub)) if is_name(top) && is_name(sub) => Ok(Self::Exact(text)),
            _ => Err(InvalidMediaType),
        }
    }

    /// Returns `true` if `self` includes the type in `content_type`, a value of `Content-Type`. `text/*` does
    /// not include `text/event-stream`.
    pub fn includes_content_type(&self, content_type: &[u8]) -> bool {
        self.includes(name_of(content_type))
    }

    /// Returns `true` if `self` includes `name`, the type and subtype of a response.
    pub(super) fn includes(&self, name: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => name.eq_ignore_ascii_case(exact.as_bytes()),
            Self::Below(start) => {
                let begins = name.get(..start.len()).is_some_and(|part| is_same(part, start));
                begins && !name.eq_ignore_ascii_case(EVENT_STREAM)
            }
            Self::Ending(end) => {
                let start = name.len().checked_sub(end.len());
                start.is_some_and(|start| is_same(&name[start..], end))
            }
        }
    }
}

fn is_same(bytes: &[u8], text: &str) -> bool {
    bytes.eq_ignore_ascii_case(text.as_bytes())
}

/// Returns the type and subtype from a `Content-Type` value, without parameters.
pub(super) fn name_of(content_type: &[u8]) -> &[u8] {
    let end = content_type.iter().position(|byte| *byte == b';').unwrap_or(content_type.len());
    trim_whitespace(&content_type[..end])
}

/// Returns the types that are compressed by default.
pub(super) fn defaults() -> Vec<MediaType> {
    let below = ["text/"].map(|start| MediaType::Below(start.to_owned()));
    let ending = ["+json", "+xml", "+yaml"].map(|end| MediaType::Ending(end.to_owned()));
    let exact = EXACT.map(|name| MediaType::Exact(name.to_owned()));
    below.into_iter().chain(ending).chain(exact).collect()
}

impl fmt::Display for InvalidMediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a media type")
    }
}

impl std::error::Error for InvalidMediaType {}

/// Media type of server-sent events (HTML Living Standard §9.2).
pub(super) const EVENT_STREAM: &[u8] = b"text/event-stream";

const EXACT: [&str; 20] = [
    "application/ecmascript",
    "application/graphql",
    "application/javascript",
    "application/json",
    "application/jsonl",
    "application/rtf",
    "application/sql",
    "application/toml",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-javascript",
    "application/x-ndjson",
    "application/x-yaml",
    "application/xml",
    "application/yaml",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/vnd.microsoft.icon",
    "image/x-icon",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_type_patterns_match_exactly_or_by_prefix_or_suffix() {
        for (text, name, is_included) in [
            ("text/html", "text/html", true),
            ("Text/HTML", "TEXT/html", true),
            ("text/html", "text/htm", false),
            ("text/*", "text/css", true),
            ("text/*", "TEXT/css", true),
            ("text/*", "texts/css", false),
            ("text/*", "text", false),
            ("*+json", "application/problem+json", true),
            ("*+json", "application/problem+JSON", true),
            ("*+json", "application/json", false),
            ("*+json", "json", false),
        ] {
            assert_eq!(
                MediaType::parse(text).unwrap().includes(name.as_bytes()),
                is_included,
                "{text} {name}"
            );
        }
    }

    #[test]
    fn event_streams_match_only_if_named_exactly() {
        assert!(!MediaType::parse("text/*").unwrap().includes(EVENT_STREAM));
        assert!(MediaType::parse("text/event-stream").unwrap().includes(EVENT_STREAM));
        assert!(!defaults().iter().any(|media_type| media_type.includes(EVENT_STREAM)));
    }

    #[test]
    fn invalid_media_types_are_rejected() {
        for text in [
            "",
            "text",
            "text/",
            "/html",
            "*",
            "*/*",
            "*/html",
            "text/ht*",
            "te xt/html",
            "*+",
            "a/b/c",
            "a/b;c=d",
        ] {
            assert_eq!(MediaType::parse(text), Err(InvalidMediaType), "{text}");
        }
    }

    #[test]
    fn media_type_parameters_are_ignored() {
        assert_eq!(name_of(b"text/html; charset=utf-8"), b"text/html");
        assert_eq!(name_of(b" text/html\t;a"), b"text/html");
        assert_eq!(name_of(b""), b"");
    }

    #[test]
    fn default_media_types_are_valid() {
        for name in EXACT {
            assert_eq!(MediaType::parse(name), Ok(MediaType::Exact(name.to_owned())));
        }
    }
}
