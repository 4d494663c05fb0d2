//! The key `respond` of routes, for fixed responses.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_server::{FieldLinesBuf, FieldName, FieldValue, StatusCode};

use crate::config::FixedAnswer;
use crate::config::resolver::Resolver;
use crate::config::values::Spanned;

/// A fixed response.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawAnswer {
    /// Status of the response, 200 to 599. Default: 200.
    pub(in crate::config) status: Option<Spanned<u16>>,
    /// Media type of the body. Default: `text/plain; charset=utf-8` if there is a body.
    pub(in crate::config) content_type: Option<Spanned<String>>,
    /// Body of the response. Default: none.
    pub(in crate::config) body: Option<Spanned<String>>,
    /// Additional headers, each as `{ name = "…", value = "…" }`. Headers that the server sets, such as
    /// `Date`, are not allowed here. Default: none.
    #[serde(default)]
    pub(in crate::config) headers: Vec<RawField>,
}

/// A header of a fixed response.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawField {
    /// Name of the header.
    pub(in crate::config) name: Spanned<String>,
    /// Value of the header.
    pub(in crate::config) value: Spanned<String>,
}

pub(in crate::config) fn resolve_answer(resolver: &mut Resolver<'_>, raw: RawAnswer) -> FixedAnswer {
    let status = raw.status.map_or(StatusCode::OK, |status| resolve_status(resolver, &status));
    if let Some(content) = &raw.body
        && status.is_without_content()
        && !content.get_ref().is_empty()
    {
        resolver.refuse(content, format!("a response with status {status} has no body"));
    }
    let content = raw.body.map(Spanned::into_inner).unwrap_or_default();
    let mut lines = match raw.content_type {
        Some(value) => resolve_field_line(resolver, "Content-Type", &value),
        None if content.is_empty() => String::new(),
        None => TEXT.to_owned(),
    };
    for RawField { name, value } in raw.headers {
        if may_be_set(resolver, &name) {
            lines.push_str(&resolve_field_line(resolver, name.get_ref(), &value));
        }
    }
    FixedAnswer { status, field_lines: FieldLinesBuf::from_static(kept(lines)), content: kept(content) }
}

fn resolve_status(resolver: &mut Resolver<'_>, raw: &Spanned<u16>) -> StatusCode {
    match StatusCode::new(*raw.get_ref()) {
        Ok(status) if (200..600).contains(&status.as_u16()) => status,
        _ => {
            resolver.refuse(raw, "the status must be from 200 to 599");
            StatusCode::OK
        }
    }
}

/// Returns the header line with its line break. If the value is invalid, records an error and returns an
/// empty string.
pub(in crate::config) fn resolve_field_line(
    resolver: &mut Resolver<'_>,
    name: &str,
    value: &Spanned<String>,
) -> String {
    match FieldValue::new(value.get_ref().as_bytes()) {
        Ok(_) => format!("{name}: {}\r\n", value.get_ref()),
        Err(error) => {
            resolver.refuse(value, error);
            String::new()
        }
    }
}

/// Returns `true` if the header name is valid and the server does not set this header. Otherwise, records an
/// error.
fn may_be_set(resolver: &mut Resolver<'_>, name: &Spanned<String>) -> bool {
    let text = name.get_ref();
    if let Err(error) = FieldName::new(text.as_bytes()) {
        resolver.refuse(name, error);
    } else if text.eq_ignore_ascii_case("content-type") {
        resolver.refuse_with(name, "`headers` cannot set `Content-Type`", "write `content_type = \"…\"`");
    } else if SERVER_FIELDS.iter().any(|field| text.eq_ignore_ascii_case(field)) {
        resolver.refuse_with(name, format!("the server sets `{text}` itself"), "remove this header");
    } else {
        return true;
    }
    false
}

/// Returns a copy of `text` that stays in memory until the process ends. Stores each text only once, so that
/// reloads of the same config need no additional memory.
fn kept(text: String) -> &'static str {
    static KEPT: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.get(text.as_str()) {
        return known;
    }
    let text: &'static str = text.leak();
    all.insert(text);
    text
}

const TEXT: &str = "Content-Type: text/plain; charset=utf-8\r\n";

/// Headers of the connection (RFC 9110 §7.6.1) and of message framing, and headers that the server sets.
const SERVER_FIELDS: [&str; 10] = [
    "Connection",
    "Content-Length",
    "Date",
    "Keep-Alive",
    "Proxy-Connection",
    "Server",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_one_allocation() {
        let texts = ["a text".to_owned(), "a text".to_owned()].map(kept);
        assert!(std::ptr::eq(texts[0], texts[1]));
        assert_eq!(kept("another".to_owned()), "another");
    }
}
