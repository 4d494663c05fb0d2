//! Compares generated and damaged heads with `httparse`. It must read all accepted heads in the same way. If
//! Thruway rejects a head that `httparse` accepts, there must be a reason.

use httparse::{EMPTY_HEADER, Header, ParserConfig, Status};
use thruway_http1::{
    ClientConnection, ClientEvent, Error, HeadIndex, Limits, ResponseTo, ServerConnection, ServerEvent,
};
use thruway_message::FieldLines;
use thruway_testkit::Random;
use thruway_testkit::transcript::Reader;

use crate::generate;
use crate::samples;

/// Errors in heads that `httparse` accepts, with the reason. `httparse` reads the lines of a head and leaves
/// their meaning to the caller.
const STRICTER: &[(Error, &str)] = &[
    (
        Error::BareLineFeed,
        "RFC 9112 §2.2 allows a lone LF as a line end; other parsers see no line end there",
    ),
    (Error::ChunkedNotFinal, "meaning of fields"),
    (Error::ChunkedRepeated, "meaning of fields"),
    (Error::ConnectWithContent, "meaning of fields"),
    (Error::ContentLengthInvalid, "meaning of fields"),
    (Error::ContentLengthOverflow, "meaning of fields"),
    (Error::ContentLengthRepeated, "meaning of fields"),
    (Error::ContentTooLarge, "meaning of fields"),
    (Error::ExpectationUnknown, "meaning of fields"),
    (Error::FieldLinesTooMany, "our limit"),
    (Error::HeaderSectionTooLarge, "our limit"),
    (Error::HostInvalid, "meaning of fields"),
    (Error::HostMissing, "meaning of fields"),
    (Error::HostRepeated, "meaning of fields"),
    (Error::InterimResponsesTooMany, "our limit"),
    (Error::MethodInvalid, "more than one empty line before a request"),
    (Error::MethodTooLong, "our limit"),
    (Error::RequestTargetInvalid, "a form that is not valid for the method; bytes that are not a URI"),
    (Error::RequestTargetTooLong, "our limit"),
    (Error::StatusLineInvalid, "an empty line before a response; a status below 100; our limit"),
    (Error::TransferCodingUnknown, "meaning of fields"),
    (Error::TransferEncodingInHttp10, "meaning of fields"),
    (Error::TransferEncodingWithContentLength, "meaning of fields"),
    (Error::UnexpectedMessage, "101 that was not requested"),
];

/// The result of a parser for a head.
#[derive(PartialEq, Eq, Debug)]
enum Verdict {
    Head { start_line: (String, Vec<u8>, u8), fields: Vec<(String, Vec<u8>)>, used: usize },
    Partial,
    Refused(Option<Error>),
}

#[test]
fn request_heads_are_parsed_like_httparse() {
    let mut random = Random::new(20);
    for sample in samples::all().iter().filter(|sample| matches!(sample.reader, Reader::Server { .. })) {
        compare_damaged(&sample.input, sample.limits, &mut random, our_request, their_request);
    }
    for _ in 0..300 {
        let head = generated_head(
            &format!("{} {} HTTP/1.1", generate::token(&mut random), generate::origin_form(&mut random)),
            &mut random,
        );
        compare_damaged(&head, Limits::default(), &mut random, our_request, their_request);
    }
}

#[test]
fn response_heads_are_parsed_like_httparse() {
    let mut random = Random::new(21);
    for sample in samples::all().iter().filter(|sample| matches!(sample.reader, Reader::Client(_))) {
        compare_damaged(&sample.input, sample.limits, &mut random, our_response, their_response);
    }
    for _ in 0..300 {
        let head = generated_head(&format!("HTTP/1.1 {} OK", 100 + random.below(900)), &mut random);
        compare_damaged(&head, Limits::default(), &mut random, our_response, their_response);
    }
}

fn generated_head(start_line: &str, random: &mut Random) -> Vec<u8> {
    let mut head = format!("{start_line}\r\nHost: a\r\n").into_bytes();
    for (name, value) in generate::fields(random) {
        head.extend_from_slice(&[name.as_bytes(), b": ", &value, b"\r\n"].concat());
    }
    head.extend_from_slice(b"\r\n");
    head
}

fn compare_damaged(
    head: &[u8],
    limits: Limits,
    random: &mut Random,
    ours: fn(&[u8], Limits) -> Verdict,
    theirs: fn(&[u8]) -> Verdict,
) {
    for damages in 0..40 {
        let mut input = head.to_vec();
        (0..damages / 10).for_each(|_| generate::damage(&mut input, random));
        let (ours, theirs) = (ours(&input, limits), theirs(&input));
        let is_fine = match &ours {
            Verdict::Head { .. } => ours == theirs,
            // `httparse` may have found an error earlier.
            Verdict::Partial => !matches!(theirs, Verdict::Head { .. }),
            Verdict::Refused(Some(error)) => {
                !matches!(theirs, Verdict::Head { .. })
                    || STRICTER.iter().any(|(stricter, _)| stricter == error)
            }
            Verdict::Refused(None) => unreachable!("our errors have names"),
        };
        assert!(is_fine, "{}\nours {ours:?}\ntheirs {theirs:?}", input.escape_ascii());
    }
}

fn our_request(input: &[u8], limits: Limits) -> Verdict {
    let mut index = HeadIndex::default();
    match ServerConnection::new(limits).handle_input(input, &mut index) {
        Ok((Some(ServerEvent::Request), used)) => {
            let head = index.request_head(&input[..used]);
            let start_line =
                (head.method.to_string(), head.target.to_string().into_bytes(), minor(head.version.as_str()));
            Verdict::Head { start_line, fields: our_fields(head.field_lines), used }
        }
        Ok(_) => Verdict::Partial,
        Err(error) => Verdict::Refused(Some(error)),
    }
}

fn their_request(input: &[u8]) -> Verdict {
    let mut headers = [EMPTY_HEADER; 200];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(input) {
        Ok(Status::Complete(used)) => Verdict::Head {
            start_line: (
                request.method.unwrap_or_default().to_owned(),
                request.path.unwrap_or_default().as_bytes().to_vec(),
                request.version.unwrap_or_default(),
            ),
            fields: their_fields(request.headers),
            used,
        },
        Ok(Status::Partial) => Verdict::Partial,
        Err(_) => Verdict::Refused(None),
    }
}

fn our_response(input: &[u8], limits: Limits) -> Verdict {
    let mut index = HeadIndex::default();
    let mut connection = ClientConnection::new(limits);
    connection.expect_response(ResponseTo::Other, false);
    match connection.handle_input(input, &mut index) {
        Ok((Some(ClientEvent::Response(_) | ClientEvent::Interim | ClientEvent::Tunnel), used)) => {
            let head = index.response_head(&input[..used]);
            Verdict::Head {
                start_line: (
                    head.status.to_string(),
                    ascii(head.reason).to_vec(),
                    minor(head.version.as_str()),
                ),
                fields: our_fields(head.field_lines),
                used,
            }
        }
        Ok(_) => Verdict::Partial,
        Err(error) => Verdict::Refused(Some(error)),
    }
}

fn their_response(input: &[u8]) -> Verdict {
    let mut headers = [EMPTY_HEADER; 200];
    let mut response = httparse::Response::new(&mut headers);
    match ParserConfig::default().parse_response(&mut response, input) {
        Ok(Status::Complete(used)) => Verdict::Head {
            start_line: (
                response.code.unwrap_or_default().to_string(),
                response.reason.unwrap_or_default().as_bytes().to_vec(),
                response.version.unwrap_or_default(),
            ),
            fields: their_fields(response.headers),
            used,
        },
        Ok(Status::Partial) => Verdict::Partial,
        Err(_) => Verdict::Refused(None),
    }
}

/// `httparse` omits a reason phrase that is not ASCII.
fn ascii(reason: &[u8]) -> &[u8] {
    if reason.is_ascii() { reason } else { b"" }
}

fn minor(version: &str) -> u8 {
    version.as_bytes().last().map_or(0, |digit| digit - b'0')
}

fn our_fields(lines: FieldLines<'_>) -> Vec<(String, Vec<u8>)> {
    lines.iter().map(|line| (line.name.to_string(), line.value.as_bytes().to_vec())).collect()
}

fn their_fields(headers: &[Header<'_>]) -> Vec<(String, Vec<u8>)> {
    headers.iter().map(|header| (header.name.to_owned(), header.value.to_vec())).collect()
}
