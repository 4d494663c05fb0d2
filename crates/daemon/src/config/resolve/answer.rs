//! Fixed answers, so that each can be sent as it is.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use thruway_server::{FieldLinesBuf, FieldName, FieldValue, StatusCode};

use super::Resolver;
use crate::config::FixedAnswer;
use crate::config::raw::{RawAnswer, RawField};
use crate::config::spanned::Spanned;

impl Resolver<'_> {
    pub(super) fn answer(&mut self, raw: RawAnswer) -> FixedAnswer {
        let status = raw.status.map_or(StatusCode::OK, |status| self.status(&status));
        if let Some(content) = &raw.content
            && status.is_without_content()
            && !content.get_ref().is_empty()
        {
            self.refuse(content, format!("an answer with status {status} has no content"));
        }
        let content = raw.content.map(Spanned::into_inner).unwrap_or_default();
        let mut lines = match raw.content_type {
            Some(value) => self.field_line("Content-Type", &value),
            None if content.is_empty() => String::new(),
            None => TEXT.to_owned(),
        };
        for RawField { name, value } in raw.fields {
            if self.may_be_set(&name) {
                lines.push_str(&self.field_line(name.get_ref(), &value));
            }
        }
        FixedAnswer { status, field_lines: FieldLinesBuf::from_static(kept(lines)), content: kept(content) }
    }

    fn status(&mut self, raw: &Spanned<u16>) -> StatusCode {
        match StatusCode::new(*raw.get_ref()) {
            Ok(status) if (200..600).contains(&status.as_u16()) => status,
            _ => {
                self.refuse(raw, "the status of an answer is 200 to 599");
                StatusCode::OK
            }
        }
    }

    /// The line as it is sent; nothing if it would be invalid.
    pub(super) fn field_line(&mut self, name: &str, value: &Spanned<String>) -> String {
        match FieldValue::new(value.get_ref().as_bytes()) {
            Ok(_) => format!("{name}: {}\r\n", value.get_ref()),
            Err(error) => {
                self.refuse(value, error);
                String::new()
            }
        }
    }

    /// Whether the field is valid and not the server's own.
    fn may_be_set(&mut self, name: &Spanned<String>) -> bool {
        let text = name.get_ref();
        if let Err(error) = FieldName::new(text.as_bytes()) {
            self.refuse(name, error);
        } else if text.eq_ignore_ascii_case("content-type") {
            self.refuse_with(name, "`Content-Type` has a key of its own", "write `content_type = \"…\"`");
        } else if SERVER_FIELDS.iter().any(|field| text.eq_ignore_ascii_case(field)) {
            self.refuse_with(name, format!("`{text}` is written by the server itself"), "leave it out");
        } else {
            return true;
        }
        false
    }
}

/// `text`, kept until the process ends, and once only: a config that is read again takes no more memory.
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

/// Fields of the connection (RFC 9110 §7.6.1), of the framing, and those that the server knows better.
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
    fn a_text_is_kept_once() {
        let texts = ["a text".to_owned(), "a text".to_owned()].map(kept);
        assert!(std::ptr::eq(texts[0], texts[1]));
        assert_eq!(kept("another".to_owned()), "another");
    }
}
