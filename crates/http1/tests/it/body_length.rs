//! Tests all combinations of fields that determine a body's length, against a second implementation of RFC
//! 9112 §6.3.

use thruway_http1::{BodyLength, Error, Limits, ResponseBody, ResponseTo};
use thruway_message::{Method, StatusCode, Version};
use thruway_testkit::transcript::{Event, Reader, Transcript};

/// The combined meaning of the `Content-Length` lines of a message.
type Length = Result<Option<u64>, Error>;

/// Values of `Content-Length` lines, with their meaning.
const LENGTHS: &[(&[&str], Length)] = &[
    (&[], Ok(None)),
    (&["0"], Ok(Some(0))),
    (&["7"], Ok(Some(7))),
    (&["007"], Ok(Some(7))),
    (&["+7"], Err(Error::ContentLengthInvalid)),
    (&["7, 7"], Err(Error::ContentLengthInvalid)),
    (&["7", "7"], Err(Error::ContentLengthRepeated)),
    (&["7", "8"], Err(Error::ContentLengthRepeated)),
    (&["18446744073709551616"], Err(Error::ContentLengthOverflow)),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Codings {
    Absent,
    Empty,
    Chunked,
    ChunkedTwice,
    UnknownLast,
    UnknownBeforeChunked,
}

/// Values of `Transfer-Encoding` lines, with their meaning.
const CODINGS: &[(&[&str], Codings)] = &[
    (&[], Codings::Absent),
    (&[""], Codings::Empty),
    (&["chunked"], Codings::Chunked),
    (&["ChunkeD ,"], Codings::Chunked),
    (&["chunked, chunked"], Codings::ChunkedTwice),
    (&["chunked", "chunked"], Codings::ChunkedTwice),
    (&["identity"], Codings::UnknownLast),
    (&["chunked, gzip"], Codings::UnknownLast),
    (&["chunked", "identity"], Codings::UnknownLast),
    (&["gzip, chunked"], Codings::UnknownBeforeChunked),
    (&["gzip", "chunked"], Codings::UnknownBeforeChunked),
];

const VERSIONS: [Version; 2] = [Version::Http10, Version::Http11];

#[test]
fn request_body_length_follows_rfc_9112() {
    for (method, target) in
        [("GET", "/"), ("HEAD", "/"), ("POST", "/"), ("CONNECT", "a:1"), ("OPTIONS", "*"), ("X", "/")]
    {
        for_every_combination(|version, lines, length, codings| {
            let input = format!("{method} {target} {version}\r\nHost: a\r\n{lines}\r\n");
            let expected = of_request(method == "CONNECT", version, length, codings);
            assert_eq!(
                first_length(&Reader::Server { declines_tunnels: false }, &input),
                expected,
                "{input}"
            );
        });
    }
}

#[test]
fn response_body_length_follows_rfc_9112() {
    for to in [ResponseTo::Connect, ResponseTo::Head, ResponseTo::Other] {
        for status in [100, 103, 200, 204, 205, 206, 299, 302, 304, 404, 500] {
            for_every_combination(|version, lines, length, codings| {
                let input = format!("{version} {status} x\r\n{lines}\r\n");
                let expected = of_response(to, status, version, length, codings);
                assert_eq!(
                    first_length(&Reader::Client(vec![(to, false)]), &input),
                    expected,
                    "{to:?} {input}"
                );
            });
        }
    }
}

fn for_every_combination(check: impl Fn(Version, &str, Length, Codings)) {
    for version in VERSIONS {
        for (lengths, length) in LENGTHS {
            for (values, codings) in CODINGS {
                let lengths = lines("Content-Length", lengths);
                let values = lines("Transfer-Encoding", values);
                check(version, &format!("{lengths}{values}"), *length, *codings);
                check(version, &format!("{values}{lengths}"), *length, *codings);
            }
        }
    }
}

fn lines(name: &str, values: &[&str]) -> String {
    values.iter().flat_map(|value| [name, ": ", value, "\r\n"]).collect()
}

/// Checks the rules that are the same for both roles.
fn check(version: Version, length: Length, codings: Codings) -> Length {
    let length = length?;
    match codings {
        Codings::Absent => Ok(length),
        _ if version == Version::Http10 => Err(Error::TransferEncodingInHttp10),
        _ if length.is_some() => Err(Error::TransferEncodingWithContentLength),
        Codings::ChunkedTwice => Err(Error::ChunkedRepeated),
        _ => Ok(None),
    }
}

fn of_request(
    is_connect: bool,
    version: Version,
    length: Length,
    codings: Codings,
) -> Result<BodyLength, Error> {
    let length = check(version, length, codings)?;
    match codings {
        Codings::Absent if is_connect && length.is_some_and(|length| length > 0) => {
            Err(Error::ConnectWithContent)
        }
        Codings::Chunked if is_connect => Err(Error::ConnectWithContent),
        Codings::Absent => Ok(BodyLength::Bytes(length.unwrap_or(0))),
        Codings::Chunked => Ok(BodyLength::Chunked),
        Codings::UnknownBeforeChunked => Err(Error::TransferCodingUnknown),
        _ => Err(Error::ChunkedNotFinal),
    }
}

fn of_response(
    to: ResponseTo,
    status: u16,
    version: Version,
    length: Length,
    codings: Codings,
) -> Result<BodyLength, Error> {
    if to == ResponseTo::Connect && (200..300).contains(&status) {
        return Ok(BodyLength::NONE);
    }
    let length = check(version, length, codings)?;
    match codings {
        Codings::UnknownBeforeChunked | Codings::UnknownLast => Err(Error::TransferCodingUnknown),
        _ if to == ResponseTo::Head || status < 200 || status == 204 || status == 304 => Ok(BodyLength::NONE),
        Codings::Chunked => Ok(BodyLength::Chunked),
        _ => Ok(length.map_or(BodyLength::UntilClose, BodyLength::Bytes)),
    }
}

fn first_length(reader: &Reader, input: &str) -> Result<BodyLength, Error> {
    let transcript = Transcript::read(reader, Limits::default(), [input.as_bytes()]);
    match transcript.events.first() {
        Some(Event::Request { facts, .. }) => Ok(facts.body_length),
        Some(Event::Response(_, length)) => Ok(*length),
        Some(Event::Interim(_) | Event::Tunnel(_)) => Ok(BodyLength::NONE),
        None => Err(transcript.error.expect("an event or an error")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_fixed_body_lengths_have_a_byte_count() {
    assert_eq!(BodyLength::NONE.bytes(), Some(0));
    assert_eq!(BodyLength::Bytes(7).bytes(), Some(7));
    assert_eq!((BodyLength::Chunked.bytes(), BodyLength::UntilClose.bytes()), (None, None));
}

#[test]
fn response_framing_follows_request_and_status() {
    let framed = |method: &str, version: &str, status: u16, bytes: Option<u64>| {
        let input = format!(
            "{method} {} HTTP/{version}\r\nHost: a\r\n\r\n",
            if method == "CONNECT" { "a:1" } else { "/" }
        );
        let reader = Reader::Server { declines_tunnels: false };
        let transcript = Transcript::read(&reader, Limits::default(), [input.as_bytes()]);
        let Some(Event::Request { facts, .. }) = transcript.events.first() else { panic!("{transcript}") };
        ResponseBody::for_response(facts, StatusCode::new(status).unwrap(), bytes)
    };
    for (method, version, status, bytes, expected) in [
        ("GET", "1.1", 200, Some(5), ResponseBody::Bytes(5)),
        ("GET", "1.1", 200, Some(0), ResponseBody::Bytes(0)),
        ("GET", "1.1", 200, None, ResponseBody::Chunked),
        ("GET", "1.0", 200, Some(5), ResponseBody::Bytes(5)),
        ("GET", "1.0", 200, None, ResponseBody::UntilClose),
        ("GET", "1.1", 101, None, ResponseBody::Absent),
        ("GET", "1.1", 103, Some(5), ResponseBody::Absent),
        ("GET", "1.1", 204, Some(5), ResponseBody::Absent),
        ("GET", "1.1", 304, Some(5), ResponseBody::Absent),
        ("GET", "1.0", 304, None, ResponseBody::Absent),
        ("HEAD", "1.1", 200, Some(5), ResponseBody::OnlyFields(Some(5))),
        ("HEAD", "1.1", 200, None, ResponseBody::OnlyFields(None)),
        ("HEAD", "1.1", 204, Some(5), ResponseBody::Absent),
        ("HEAD", "1.0", 404, None, ResponseBody::OnlyFields(None)),
        ("CONNECT", "1.1", 200, Some(5), ResponseBody::Absent),
        ("CONNECT", "1.1", 403, Some(5), ResponseBody::Bytes(5)),
        ("CONNECT", "1.0", 502, None, ResponseBody::UntilClose),
    ] {
        assert_eq!(framed(method, version, status, bytes), expected, "{method} {version} {status} {bytes:?}");
        assert_eq!(
            expected.has_content(),
            matches!(expected, ResponseBody::Bytes(1..) | ResponseBody::Chunked | ResponseBody::UntilClose)
        );
    }
    assert_eq!(ResponseTo::from(Method::Head), ResponseTo::Head);
}
