//! Content types of Streamable HTTP.

use thruway_message::FieldLines;

/// The response formats that a client accepts (RFC 9110 §12.5.1). A client rejects a format by giving it the
/// weight 0 (`q=0`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AcceptedFormats {
    /// `true` if the client accepts a response that is one JSON message.
    pub json: bool,
    /// `true` if the client accepts a response that is an event stream.
    pub events: bool,
}

impl AcceptedFormats {
    /// Returns the formats that the header `Accept` names. Returns both formats if the header is absent.
    pub fn of(fields: FieldLines<'_>) -> Self {
        let mut values = fields.all("accept").peekable();
        let mut accepted = Self { json: false, events: false };
        if values.peek().is_none() {
            return Self { json: true, events: true };
        }
        for value in values.map(|value| value.as_bytes()) {
            if value == ACCEPTED_BY_CLIENTS.as_bytes() {
                return Self { json: true, events: true };
            }
            for member in thruway_message::list::members(value).filter(|member| !has_zero_quality(member)) {
                let names = |expected: &[&str]| {
                    let name = media_type(member);
                    expected.iter().any(|expected| name.eq_ignore_ascii_case(expected.as_bytes()))
                };
                accepted.json |= names(&["application/json", "application/*", "*/*"]);
                accepted.events |= names(&["text/event-stream", "text/*", "*/*"]);
            }
        }
        accepted
    }

    /// Returns `true` if the server should send an event stream even for a single message. `are_preferred` is
    /// `true` if the server prefers event streams over JSON.
    pub const fn wants_events(self, are_preferred: bool) -> bool {
        self.events && (are_preferred || !self.json)
    }
}

/// Returns `true` if a member of the `Accept` list has the weight 0 (`q=0`, RFC 9110 §12.4.2).
fn has_zero_quality(member: &[u8]) -> bool {
    let parameters = member.split(|byte| *byte == b';').skip(1);
    parameters.filter_map(|parameter| core::str::from_utf8(parameter).ok()?.split_once('=')).any(
        |(name, value)| {
            name.trim().eq_ignore_ascii_case("q")
                && value.trim().parse().is_ok_and(|weight: f32| weight <= 0.0)
        },
    )
}

/// Returns `true` if `value` is the media type `expected`, with parameters or without (RFC 9110 §8.3.1).
pub fn is_media_type(value: &[u8], expected: &[u8]) -> bool {
    // Most clients send exactly the expected bytes, so the first comparison is a fast path.
    value == expected || media_type(value).eq_ignore_ascii_case(expected)
}

/// Returns the media type `value` without its parameters.
fn media_type(value: &[u8]) -> &[u8] {
    let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
    value[..end].trim_ascii()
}

/// The value of `Accept` in the specification, which most clients send.
pub const ACCEPTED_BY_CLIENTS: &str = "application/json, text/event-stream";
