//! What the fields of a response say about compression.

use thruway_message::list::{contains_token, members};

use crate::{ContentCoding, Response};

/// Says that the response depends on `Accept-Encoding` (RFC 9110 §12.5.5), unless it says so already.
pub(super) fn vary(response: &mut Response) {
    let mut lines = response.field_lines().iter().filter(|line| line.name.is("vary"));
    let is_said = lines.any(|line| {
        let value = line.value.as_bytes();
        contains_token(value, "accept-encoding") || members(value).any(|member| member == b"*")
    });
    if !is_said {
        append(response, "Vary", b"Accept-Encoding");
    }
}

/// Says that the content has `coding`, and takes back what is no longer true.
pub(super) fn mark(response: &mut Response, coding: ContentCoding) {
    response.remove_field("accept-ranges");
    append(response, "Content-Encoding", coding.name().as_bytes());
    weaken_entity_tag(response);
}

/// The same representation in other octets has no strong entity tag in common with it (RFC 9110 §8.8.1).
pub(super) fn weaken_entity_tag(response: &mut Response) {
    let strong = response.field("etag").filter(|tag| tag.as_bytes().starts_with(b"\""));
    if let Some(tag) = strong {
        let weak = [b"W/", tag.as_bytes()].concat();
        response.remove_field("etag");
        append(response, "ETag", &weak);
    }
}

/// Appends a line that cannot be invalid: constant, or made of one that was there.
fn append(response: &mut Response, name: &str, value: &[u8]) {
    let appended = response.append_field(name, value);
    debug_assert!(appended.is_ok(), "`{name}` is valid");
}
