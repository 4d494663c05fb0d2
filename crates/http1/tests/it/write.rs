//! Tests that written messages are read unchanged, and that no data from a peer or a handler can end a line
//! early.

use thruway_http1::{
    BodyLength, Error, Limits, PreparedHead, RequestToWrite, ResponseBody, ResponseTo, ResponseToWrite,
    write_chunk, write_chunk_end, write_chunk_start, write_continue, write_field_lines, write_last_chunk,
    write_request_head, write_response_head,
};
use thruway_message::{FieldLineSpan, FieldLines, FieldLinesBuf, Method, StatusCode, Version};
use thruway_testkit::Random;
use thruway_testkit::transcript::{
    Event, Fields, Reader, Transcript, assert_same_for_all_splits, random_splits,
};

use crate::generate;

const SERVER: Reader = Reader::Server { declines_tunnels: true };

#[test]
fn written_requests_are_parsed_unchanged() {
    let mut random = Random::new(10);
    for _ in 0..300 {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for _ in 0..=random.below(3) {
            let request = GeneratedRequest::new(&mut random);
            request.write(&mut bytes, &mut random);
            expected.extend(request.events());
        }
        let ways: Vec<_> = random_splits(&bytes, &mut random, 4).collect();
        let transcript = assert_same_for_all_splits(&SERVER, Limits::default(), &bytes, ways);
        assert_eq!(
            (simplified(transcript.events), transcript.error),
            (expected, None),
            "{}",
            bytes.escape_ascii()
        );
    }
}

#[test]
fn written_responses_are_parsed_unchanged() {
    let mut random = Random::new(11);
    for _ in 0..300 {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        let mut requests = Vec::new();
        for _ in 0..=random.below(3) {
            let response = GeneratedResponse::new(&mut random);
            response.write(&mut bytes, &mut random);
            expected.extend(response.events());
            requests.push((response.to, false));
        }
        let ways: Vec<_> = random_splits(&bytes, &mut random, 4).collect();
        let reader = Reader::Client(requests);
        let transcript = assert_same_for_all_splits(&reader, Limits::default(), &bytes, ways);
        assert_eq!(
            (simplified(transcript.events), transcript.error),
            (expected, None),
            "{}",
            bytes.escape_ascii()
        );
    }
}

#[test]
fn prepared_head_equals_written_head() {
    let mut prepared = PreparedHead::new(StatusCode::ACCEPTED, [b"X-Before: the longest line\r\n", b""]);
    for (code, bytes) in [(200, 0), (200, 7), (404, 10), (599, 1_234_567), (200, u64::MAX)] {
        let status = StatusCode::try_from(code).unwrap();
        let field_lines: [&[u8]; 2] = [b"Date: now\r\n", b"X-A: 1\r\nX-B: 2\r\n"];
        let response = ResponseToWrite {
            status,
            field_lines,
            body: ResponseBody::Bytes(bytes),
            is_persistent: true,
            client_version: Version::Http11,
        };
        let (mut expected, mut output) = (b"before".to_vec(), b"before".to_vec());
        write_response_head(&mut expected, &response);
        prepared.renew(status, field_lines);
        prepared.write(&mut output, bytes);
        assert_eq!(output.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
}

/// The common form of both directions: the start line, the fields without framing fields, and the content.
#[derive(PartialEq, Eq, Debug)]
enum Simplified {
    Head(String, Fields),
    Content(Vec<u8>),
    End(Fields),
}

fn simplified(events: Vec<Event>) -> Vec<Simplified> {
    let without_framing = |mut fields: Fields| {
        fields.retain(|(name, _)| {
            !["Connection", "Content-Length", "Transfer-Encoding"].contains(&name.as_str())
        });
        fields
    };
    let line = |event: &Event| event.to_string();
    events
        .into_iter()
        .map(|event| match &event {
            Event::Request { fields, .. } => Simplified::Head(line(&event), without_framing(fields.clone())),
            Event::Response(head, _) | Event::Interim(head) | Event::Tunnel(head) => {
                Simplified::Head(line(&event), without_framing(head.fields.clone()))
            }
            Event::Content(bytes) => Simplified::Content(bytes.clone()),
            Event::EndOfContent(trailers) => Simplified::End(trailers.clone()),
            Event::EndedByClose => Simplified::End(Fields::new()),
        })
        .collect()
}

/// A body and its framing: with its length, or in chunks with a trailer section.
struct GeneratedBody {
    content: Vec<u8>,
    trailers: Option<Fields>,
}

impl GeneratedBody {
    fn new(random: &mut Random) -> Self {
        let content = generate::content(random);
        let trailers = (!random.one_in(2)).then(|| generate::fields(random));
        Self { content, trailers }
    }

    fn write(&self, bytes: &mut Vec<u8>, random: &mut Random) {
        let Some(trailers) = &self.trailers else {
            bytes.extend_from_slice(&self.content);
            return;
        };
        let mut rest = self.content.as_slice();
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(1 + random.below(rest.len()));
            if random.one_in(2) {
                write_chunk(bytes, chunk);
            } else {
                write_chunk_start(bytes, chunk.len() as u64);
                bytes.extend_from_slice(chunk);
                write_chunk_end(bytes);
            }
            rest = after;
        }
        write_chunk(bytes, b"");
        write_last_chunk(bytes, &lines(trailers));
    }

    /// Returns the length as an event shows it, and the events that follow the head.
    fn events(&self) -> (String, Vec<Simplified>) {
        let content = (!self.content.is_empty()).then(|| Simplified::Content(self.content.clone()));
        match &self.trailers {
            Some(trailers) => {
                let end = Simplified::End(trailers.clone());
                (String::from(", chunked"), content.into_iter().chain([end]).collect())
            }
            None if self.content.is_empty() => (String::new(), Vec::new()),
            None => {
                let end = Simplified::End(Fields::new());
                (format!(", {} bytes", self.content.len()), content.into_iter().chain([end]).collect())
            }
        }
    }
}

fn lines(fields: &[(String, Vec<u8>)]) -> FieldLinesBuf {
    let mut lines = FieldLinesBuf::new();
    for (name, value) in fields {
        lines.append(name, value).expect("a generated field is valid");
    }
    lines
}

struct GeneratedRequest {
    method: String,
    target: String,
    fields: Fields,
    body: GeneratedBody,
}

impl GeneratedRequest {
    fn new(random: &mut Random) -> Self {
        let (method, target) = match random.below(8) {
            0 => (String::from("OPTIONS"), String::from("*")),
            1 => (String::from("CONNECT"), String::from("example.com:443")),
            2 => (generate::token(random), format!("http://[::1]:80{}", generate::origin_form(random))),
            3 => (generate::token(random), generate::origin_form(random)),
            _ => ((*random.pick(&["GET", "POST", "PUT", "HEAD"])).into(), generate::origin_form(random)),
        };
        let mut fields = vec![(String::from("Host"), b"example.com".to_vec())];
        fields.extend(generate::fields(random));
        let body = match method.as_str() {
            "CONNECT" => GeneratedBody { content: Vec::new(), trailers: None },
            _ => GeneratedBody::new(random),
        };
        Self { method, target, fields, body }
    }

    fn write(&self, bytes: &mut Vec<u8>, random: &mut Random) {
        let (host, others) = self.fields.split_at(1);
        let (host, others) = (lines(host), lines(others));
        let request = RequestToWrite {
            method: Method::from_token(self.method.as_bytes()).expect("a generated method is a token"),
            target: &self.target,
            field_lines: [host.bytes(), others.bytes()],
            body: match self.body.trailers {
                Some(_) => BodyLength::Chunked,
                None => BodyLength::Bytes(self.body.content.len() as u64),
            },
        };
        write_request_head(bytes, &request).expect("a generated head is valid");
        self.body.write(bytes, random);
    }

    fn events(&self) -> Vec<Simplified> {
        let (length, rest) = self.body.events();
        let tunnel = if self.method == "CONNECT" { ", wants a tunnel" } else { "" };
        let line = format!("{} {} HTTP/1.1{length}{tunnel}", self.method, self.target);
        let mut events = vec![Simplified::Head(line, self.fields.clone())];
        events.extend(rest);
        events
    }
}

struct GeneratedResponse {
    to: ResponseTo,
    status: StatusCode,
    fields: Fields,
    body: GeneratedBody,
}

impl GeneratedResponse {
    fn new(random: &mut Random) -> Self {
        let status = *random.pick(&[200, 204, 206, 304, 404, 500, 599, 999]);
        Self {
            to: *random.pick(&[ResponseTo::Other, ResponseTo::Other, ResponseTo::Head]),
            status: StatusCode::new(status).expect("three digits"),
            fields: generate::fields(random),
            body: GeneratedBody::new(random),
        }
    }

    /// Returns the same framing as [`ResponseBody::for_response`].
    fn framing(&self) -> ResponseBody {
        let length = self.body.trailers.is_none().then_some(self.body.content.len() as u64);
        match (self.to, length) {
            _ if self.status.is_without_content() => ResponseBody::Absent,
            (ResponseTo::Head, length) => ResponseBody::OnlyFields(length),
            (_, Some(bytes)) => ResponseBody::Bytes(bytes),
            (_, None) => ResponseBody::Chunked,
        }
    }

    fn write(&self, bytes: &mut Vec<u8>, random: &mut Random) {
        let fields = lines(&self.fields);
        let body = self.framing();
        // HTTP/1.0 clients never get chunks.
        let client_version = match body {
            ResponseBody::Chunked | ResponseBody::OnlyFields(None) => Version::Http11,
            _ => *random.pick(&[Version::Http10, Version::Http11]),
        };
        let response = ResponseToWrite { status: self.status, client_version, ..ok(body, &fields) };
        write_response_head(bytes, &response);
        if matches!(body, ResponseBody::Bytes(_) | ResponseBody::Chunked) {
            self.body.write(bytes, random);
        }
    }

    fn events(&self) -> Vec<Simplified> {
        let (length, rest) = match self.framing() {
            ResponseBody::Absent | ResponseBody::OnlyFields(_) => Default::default(),
            _ => self.body.events(),
        };
        let line = format!("HTTP/1.1 {}{length}", self.status);
        let mut events = vec![Simplified::Head(line, self.fields.clone())];
        events.extend(rest);
        events
    }
}

#[test]
fn accepted_field_lines_cannot_inject_further_lines() {
    let mut random = Random::new(12);
    let hostile = b"ab:, \r\n\0\t\x7f\xff";
    for _ in 0..3000 {
        let mut lines = FieldLinesBuf::new();
        let mut accepted = Fields::new();
        for _ in 0..4 {
            let (name, value) = (random.below(4), random.below(6));
            let name = String::from_utf8_lossy(&random.bytes(&hostile[..9], name)).into_owned();
            let value = random.bytes(hostile, value);
            let (done, is_set) = match random.below(2) {
                0 => (lines.append(&name, &value), false),
                _ => (lines.set(&name, &value), true),
            };
            if done.is_ok() {
                accepted.retain(|(other, _)| !is_set || !other.eq_ignore_ascii_case(&name));
                accepted.push((name, value));
            }
        }
        let mut bytes = Vec::new();
        write_response_head(&mut bytes, &ok(ResponseBody::Bytes(0), &lines));
        let reader = Reader::Client(vec![(ResponseTo::Other, false)]);
        let transcript = Transcript::read(&reader, Limits::default(), [bytes.as_slice()]);
        let [Event::Response(head, BodyLength::NONE)] = transcript.events.as_slice() else {
            panic!("{}: {transcript}", bytes.escape_ascii())
        };
        let read: Fields = head.fields.iter().filter(|(name, _)| name != "Content-Length").cloned().collect();
        assert_eq!(read, accepted);
        let kept: Fields =
            lines.iter().map(|line| (line.name.to_string(), line.value.as_bytes().to_vec())).collect();
        assert_eq!(kept, accepted);
    }
}

fn ok(body: ResponseBody, lines: &FieldLinesBuf) -> ResponseToWrite<'_> {
    ResponseToWrite {
        status: StatusCode::OK,
        field_lines: [lines.bytes(), b""],
        body,
        is_persistent: true,
        client_version: Version::Http11,
    }
}

#[test]
fn method_and_target_cannot_end_the_request_line() {
    let request = |method, target| {
        let mut bytes = Vec::new();
        let request = RequestToWrite { method, target, field_lines: [b"", b""], body: BodyLength::NONE };
        let done = write_request_head(&mut bytes, &request);
        assert_eq!(done.is_err(), bytes.is_empty(), "all or nothing");
        done
    };
    for target in ["", "a", "/a b", "/a\r\nEvil: b", "/a\n", "/\0", "/é", "*", "a:1", "http://", "/a#b"] {
        assert_eq!(request(Method::Get, target), Err(Error::RequestTargetInvalid), "{target:?}");
    }
    assert_eq!(request(Method::Connect, "/"), Err(Error::RequestTargetInvalid));
    for method in ["", "GET /", "G\r\n", "É"] {
        assert_eq!(request(Method::Other(method), "/"), Err(Error::MethodInvalid), "{method:?}");
    }
    for (method, target) in
        [(Method::Get, "/a?b"), (Method::Connect, "a:1"), (Method::Options, "*"), (Method::Get, "http://a/")]
    {
        assert_eq!(request(method, target), Ok(()), "{target}");
    }
}

#[test]
fn response_head_is_written_with_the_expected_bytes() {
    let lines = FieldLinesBuf::from_static("A: b\r\n");
    let written = |response: ResponseToWrite<'_>| {
        let mut bytes = Vec::new();
        write_response_head(&mut bytes, &response);
        String::from_utf8(bytes).unwrap()
    };
    let head = |body, is_persistent, client_version| {
        written(ResponseToWrite { is_persistent, client_version, ..ok(body, &lines) })
    };
    let (http10, http11) = (Version::Http10, Version::Http11);
    for (body, is_persistent, version, rest) in [
        (ResponseBody::Bytes(0), true, http11, "Content-Length: 0\r\n"),
        (ResponseBody::Bytes(u64::MAX), true, http11, "Content-Length: 18446744073709551615\r\n"),
        (ResponseBody::Bytes(5), false, http11, "Connection: close\r\nContent-Length: 5\r\n"),
        (ResponseBody::Bytes(5), true, http10, "Connection: keep-alive\r\nContent-Length: 5\r\n"),
        (ResponseBody::Bytes(5), false, http10, "Connection: close\r\nContent-Length: 5\r\n"),
        (ResponseBody::Chunked, true, http11, "Transfer-Encoding: chunked\r\n"),
        (ResponseBody::OnlyFields(Some(5)), true, http11, "Content-Length: 5\r\n"),
        (ResponseBody::OnlyFields(None), true, http11, "Transfer-Encoding: chunked\r\n"),
        (ResponseBody::OnlyFields(None), true, http10, "Connection: keep-alive\r\n"),
        (ResponseBody::Absent, true, http11, ""),
        (ResponseBody::UntilClose, false, http10, "Connection: close\r\n"),
        (ResponseBody::UntilClose, true, http10, "Connection: close\r\n"),
        (ResponseBody::UntilClose, true, http11, "Connection: close\r\n"),
    ] {
        let expected = format!("HTTP/1.1 200 OK\r\nA: b\r\n{rest}\r\n");
        assert_eq!(head(body, is_persistent, version), expected);
    }
    for (status, body, rest) in [
        (StatusCode::NOT_FOUND, ResponseBody::Bytes(1), "404 Not Found\r\nA: b\r\nContent-Length: 1\r\n\r\n"),
        (StatusCode::EARLY_HINTS, ResponseBody::Absent, "103 Early Hints\r\nA: b\r\n\r\n"),
        (StatusCode::new(299).unwrap(), ResponseBody::Absent, "299 \r\nA: b\r\n\r\n"),
        (
            StatusCode::SWITCHING_PROTOCOLS,
            ResponseBody::Absent,
            "101 Switching Protocols\r\nA: b\r\nConnection: upgrade\r\n\r\n",
        ),
    ] {
        assert_eq!(written(ResponseToWrite { status, ..ok(body, &lines) }), format!("HTTP/1.1 {rest}"));
    }
    // An interim response has no `Connection` field. Only the final one may end the connection.
    let hints = ResponseToWrite {
        status: StatusCode::EARLY_HINTS,
        is_persistent: false,
        ..ok(ResponseBody::Absent, &lines)
    };
    assert_eq!(written(hints), "HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n");
    let mut bytes = Vec::new();
    write_continue(&mut bytes);
    assert_eq!(bytes, b"HTTP/1.1 100 Continue\r\n\r\n");
}

#[test]
fn request_head_has_content_length_only_if_needed() {
    let written = |method, body| {
        let mut bytes = Vec::new();
        let request =
            RequestToWrite { method, target: "/", field_lines: [b"Host: a\r\n", b"B: c\r\n"], body };
        write_request_head(&mut bytes, &request).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let start = "/ HTTP/1.1\r\nHost: a\r\nB: c\r\n";
    assert_eq!(written(Method::Get, BodyLength::NONE), format!("GET {start}\r\n"));
    assert_eq!(written(Method::Post, BodyLength::NONE), format!("POST {start}Content-Length: 0\r\n\r\n"));
    assert_eq!(written(Method::Get, BodyLength::Bytes(1)), format!("GET {start}Content-Length: 1\r\n\r\n"));
    assert_eq!(
        written(Method::Put, BodyLength::Chunked),
        format!("PUT {start}Transfer-Encoding: chunked\r\n\r\n")
    );
}

#[test]
fn chunk_sizes_are_written_without_leading_zeros() {
    for bytes in [1, 9, 10, 15, 16, 255, 256, 0xdead_beef, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
        let mut line = Vec::new();
        write_chunk_start(&mut line, bytes);
        assert_eq!(line, format!("{bytes:x}\r\n").into_bytes());
    }
}

#[test]
fn parsed_lines_are_written_with_one_space_after_the_colon() {
    let bytes = b"A:b\r\nC: \t d \r\nE:\r\n";
    let span = |name_start, name_end, value_start, value_end| FieldLineSpan {
        name_start,
        name_end,
        value_start,
        value_end,
    };
    let spans = [span(0, 1, 2, 3), span(5, 6, 10, 11), span(14, 15, 16, 16)];
    let mut output = Vec::new();
    write_field_lines(&mut output, FieldLines::from_parsed(bytes, &spans));
    assert_eq!(output, b"A: b\r\nC: d\r\nE: \r\n");
}
