//! Runs our parser on a case. The result must be the same for every split of the input.

use anyhow::Result;
use regex::bytes::Regex;
use thruway_http1::{Error, Limits, ResponseTo};
use thruway_testkit::transcript::{
    Event, Fields, Reader, Response, assert_same_for_all_splits, fixed_size_splits, two_piece_splits,
};

use super::corpus::{Case, FRAGMENT, Message, ParseResult};

/// Returns the result of our parser for `case`.
pub(super) fn parse_result(case: &Case) -> Result<ParseResult> {
    let (reader, input) = if case.meta.kind.starts_with("request") {
        let input = Regex::new(FRAGMENT)?.replace_all(&with_hosts(case)?, b"").into_owned();
        (Reader::Server { declines_tunnels: false }, input)
    } else {
        let to = if case.meta.skips_body { ResponseTo::Head } else { ResponseTo::Other };
        (Reader::Client(vec![(to, true); MESSAGES_MAX]), case.bytes.clone())
    };
    let ways = fixed_size_splits(&input, 4).chain(two_piece_splits(&input));
    let transcript = assert_same_for_all_splits(&reader, Limits::default(), &input, ways);
    let mut parse_result = ParseResult::default();
    for event in transcript.events {
        add_event(event, &mut parse_result.messages);
    }
    // If the kind of a case ends with `-finish`, the input ends after the last byte. In other cases, more
    // bytes may follow, so an incomplete message is not an error.
    let is_end = |error: &Error| *error == Error::IncompleteMessage && !case.meta.kind.ends_with("-finish");
    parse_result.rejection =
        transcript.error.filter(|error| !is_end(error)).map(|error| format!("{error:?}"));
    Ok(parse_result)
}

/// Returns the input with a `Host` field in each HTTP/1.1 request. Without this field, our parser would
/// reject most cases of the corpus.
fn with_hosts(case: &Case) -> Result<Vec<u8>> {
    let mut places = Vec::new();
    let mut version: &[u8] = b"";
    for entry in case.entries()? {
        match entry.name {
            "version" => version = entry.bytes,
            "header_field" if entry.bytes.eq_ignore_ascii_case(b"host") => {
                places.pop();
            }
            "version complete" if version == b"1.1" && case.bytes[entry.at..].starts_with(b"\r\n") => {
                places.push(entry.at + 2);
            }
            _ => {}
        }
    }
    let mut bytes = case.bytes.clone();
    if places.is_empty() && version.is_empty() {
        // llhttp rejected the request line, but our parser may accept it.
        places.extend(Regex::new(" HTTP/1[.]1\r\n")?.find(&bytes).map(|found| found.end()));
    }
    for place in places.into_iter().rev() {
        bytes.splice(place..place, *HOST);
    }
    Ok(bytes)
}

fn add_event(event: Event, messages: &mut Vec<Message>) {
    match event {
        Event::Request { method, target, fields, facts } => messages.push(Message {
            start_line: [method, target, facts.version.to_string()],
            fields: as_text(fields),
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

/// Returns the fields as text, without the `Host` field that [`with_hosts`] adds.
fn as_text(fields: Fields) -> Vec<(String, String)> {
    let fields =
        fields.into_iter().filter(|(name, value)| [name.as_bytes(), b": ", value, b"\r\n"].concat() != HOST);
    fields.map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned())).collect()
}

const HOST: &[u8; 24] = b"Host: inserted.example\r\n";

/// Maximum number of messages in a case. All cases of the corpus have fewer messages.
const MESSAGES_MAX: usize = 16;
