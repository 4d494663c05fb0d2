//! Bytes from a client: the events do not depend on the split of the input, and an accepted request can be
//! serialized and parsed again with the same result.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thruway_http1::{BodyLength, Limits, RequestToWrite, write_request_head};
use thruway_message::{FieldLinesBuf, Method, Version};
use thruway_testkit::Random;
use thruway_testkit::transcript::{
    Event, Fields, Reader, Transcript, assert_same_for_all_splits, fixed_size_splits, random_splits,
};

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, bytes) = input;
    let reader = Reader::Server { declines_tunnels: choice & 1 == 0 };
    let limits = if choice & 2 == 0 { Limits::default() } else { SMALL_LIMITS };
    let mut random = Random::new(u64::from(choice));
    let splits = fixed_size_splits(bytes, 1).chain(random_splits(bytes, &mut random, 3));
    let transcript = assert_same_for_all_splits(&reader, limits, bytes, splits);
    for event in &transcript.events {
        if let Event::Request { method, target, fields, facts } = event
            && facts.version == Version::Http11
        {
            check_round_trip(method, target, fields, facts.body_length);
        }
    }
});

fn check_round_trip(method: &str, target: &str, fields: &Fields, body: BodyLength) {
    let mut lines = FieldLinesBuf::new();
    for (name, value) in fields.iter().filter(|(name, _)| !is_framing_field(name)) {
        lines.append(name, value).expect("an accepted header line should be valid");
    }
    let request = RequestToWrite {
        method: Method::from_token(method.as_bytes()).expect("an accepted method should be a token"),
        target,
        field_lines: [lines.bytes(), b""],
        body,
    };
    let mut bytes = Vec::new();
    write_request_head(&mut bytes, &request).expect("serializing an accepted head should succeed");
    // The written head can have one more line than the accepted head: `Content-Length: 0`.
    let limits = Limits {
        content_bytes: u64::MAX,
        header_section_bytes: u32::MAX,
        field_lines: Limits::default().field_lines + 1,
        ..Limits::default()
    };
    let transcript =
        Transcript::read(&Reader::Server { declines_tunnels: false }, limits, [bytes.as_slice()]);
    let Some(Event::Request { method: again_method, target: again_target, fields: again, facts }) =
        transcript.events.first()
    else {
        panic!("{}: {transcript}", bytes.escape_ascii())
    };
    assert_eq!((again_method.as_str(), again_target.as_str(), facts.body_length), (method, target, body));
    assert!(
        again
            .iter()
            .filter(|(name, _)| !is_framing_field(name))
            .eq(fields.iter().filter(|(name, _)| !is_framing_field(name)))
    );
}

/// Returns `true` for header fields that determine the length of the body.
fn is_framing_field(name: &str) -> bool {
    name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("transfer-encoding")
}

const SMALL_LIMITS: Limits = Limits {
    request_target_bytes: 16,
    header_section_bytes: 64,
    field_lines: 4,
    content_bytes: 32,
    chunk_extension_bytes: 16,
    trailer_section_bytes: 32,
    interim_responses: 2,
    requests_per_connection: 2,
};
