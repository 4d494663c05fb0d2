//! Our reading of a case, the same however its input is cut.

use anyhow::Result;
use thruway_http1::{Error, Limits, ResponseTo};
use thruway_testkit::transcript::{
    Event, Fields, Reader, Response, Transcript, assert_same_for_all_splits, fixed_size_splits,
    two_piece_splits,
};

use super::log::{self, Entry};
use super::markdown::{Case, FRAGMENT};
use super::reading::{Message, Reading};

/// Returns our reading of the input of `case`.
pub(super) fn reading(case: &Case) -> Result<Reading> {
    let (reader, input) = if case.meta.kind.starts_with("request") {
        (Reader::Server { declines_tunnels: false }, without_fragments(with_hosts(case)?))
    } else {
        let to = if case.meta.skips_body { ResponseTo::Head } else { ResponseTo::Other };
        (Reader::Client(vec![(to, true); MESSAGES_MAX]), case.bytes.clone())
    };
    let ways = fixed_size_splits(&input, 4).chain(two_piece_splits(&input));
    let transcript = assert_same_for_all_splits(&reader, Limits::default(), &input, ways);
    Ok(from_transcript(transcript, case.meta.kind.ends_with("-finish")))
}

/// The input with a `Host` field in each request of HTTP/1.1. Nearly all of the corpus lacks it, and would be
/// refused for that alone.
fn with_hosts(case: &Case) -> Result<Vec<u8>> {
    let mut places = Vec::new();
    let mut version: &[u8] = b"";
    for entry in log::entries(case) {
        match entry? {
            Entry::Span { name: "version", bytes } => version = bytes,
            Entry::Span { name: "header_field", bytes } if bytes.eq_ignore_ascii_case(b"host") => {
                places.pop();
            }
            Entry::Mark { name: "version complete", at }
                if version == b"1.1" && case.bytes[at..].starts_with(b"\r\n") =>
            {
                places.push(at + 2);
            }
            _ => {}
        }
    }
    let mut bytes = case.bytes.clone();
    if places.is_empty() && version.is_empty() {
        // They refused the request line, which need not be ours to refuse.
        places.extend(place_of(&bytes, b" HTTP/1.1\r\n").map(|place| place + 11));
    }
    for place in places.into_iter().rev() {
        bytes.splice(place..place, *HOST);
    }
    Ok(bytes)
}

fn without_fragments(mut bytes: Vec<u8>) -> Vec<u8> {
    while let Some(place) = place_of(&bytes, FRAGMENT.as_bytes()) {
        bytes.drain(place..place + FRAGMENT.len());
    }
    bytes
}

/// Returns the first place of `part` in `bytes`.
fn place_of(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

fn from_transcript(transcript: Transcript, is_finished: bool) -> Reading {
    let mut reading = Reading::default();
    for event in transcript.events {
        take(event, &mut reading.messages);
    }
    // Unless it says so, a case does not end the input.
    let is_end = transcript.error == Some(Error::IncompleteMessage) && !is_finished;
    reading.refusal = transcript.error.filter(|_| !is_end).map(|error| format!("{error:?}"));
    reading
}

fn take(event: Event, messages: &mut Vec<Message>) {
    match event {
        Event::Request { method, target, fields, facts } => messages.push(Message {
            start_line: [method, target, facts.version.to_string()],
            fields: without_host(fields),
            is_complete: facts.body_length.bytes() == Some(0),
            ..Message::default()
        }),
        Event::Interim(head) | Event::Tunnel(head) => messages.push(from_response(head, true)),
        Event::Response(head, length) => messages.push(from_response(head, length.bytes() == Some(0))),
        Event::Content(bytes) => last(messages).content.extend(bytes),
        Event::EndOfContent(trailers) => {
            last(messages).trailers = as_text(trailers);
            last(messages).is_complete = true;
        }
        Event::EndedByClose => {}
    }
}

fn last(messages: &mut [Message]) -> &mut Message {
    messages.last_mut().expect("a head comes before its content")
}

fn from_response(head: Response, is_complete: bool) -> Message {
    let reason = String::from_utf8_lossy(&head.reason).into_owned();
    Message {
        start_line: [head.status.to_string(), reason, head.version.to_string()],
        fields: as_text(head.fields),
        is_complete,
        ..Message::default()
    }
}

fn without_host(fields: Fields) -> Vec<(String, String)> {
    let mut fields = as_text(fields);
    fields.retain(|(name, value)| (name.as_str(), value.as_str()) != ("Host", "inserted.example"));
    fields
}

fn as_text(fields: Fields) -> Vec<(String, String)> {
    fields.into_iter().map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned())).collect()
}

const HOST: &[u8; 24] = b"Host: inserted.example\r\n";

/// More than any case holds.
const MESSAGES_MAX: usize = 16;
