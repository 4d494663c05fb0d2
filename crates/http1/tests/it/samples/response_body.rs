//! Samples of the end of a response body (RFC 9112 §6.3).

use thruway_http1::{Error, ResponseTo};

use super::{Sample, refused};

pub(crate) fn samples() -> Vec<Sample> {
    let mut samples = framed();
    samples.extend(without_body());
    samples.extend(lengths_refused());
    samples.extend(codings_refused());
    samples.extend(ends());
    samples.extend(limits());
    samples
}

fn ok(lines: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{lines}\r\n{body}")
}

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

fn framed() -> Vec<Sample> {
    let one = |name, lines: &str, body: &str, transcript: &[&str]| {
        Sample::responses(name, &[ResponseTo::Other], ok(lines, body), transcript)
    };
    vec![
        one("a length", "Content-Length: 3\r\n", "abc", &["HTTP/1.1 200, 3 bytes", "content abc", "end"]),
        one("a length of 0", "Content-Length: 0\r\n", "", &["HTTP/1.1 200"]),
        one(
            "chunked",
            CHUNKED,
            "3\r\nabc\r\n0\r\nA: b\r\n\r\n",
            &["HTTP/1.1 200, chunked", "content abc", "end with A"],
        ),
        one("until the close", "", "abc", &["HTTP/1.1 200, until close", "content abc", "end by close"]),
        one("nothing until the close", "", "", &["HTTP/1.1 200, until close", "end by close"]),
        one(
            "until the close with an empty coding",
            "Transfer-Encoding:\r\n",
            "abc",
            &["HTTP/1.1 200, until close", "content abc", "end by close"],
        ),
        one(
            "until the close with close",
            "Connection: close\r\n",
            "abc",
            &["HTTP/1.1 200, until close", "content abc", "end by close"],
        ),
        Sample::responses(
            "until the close of HTTP/1.0",
            &[ResponseTo::Other],
            "HTTP/1.0 200 OK\r\n\r\nabc",
            &["HTTP/1.0 200, until close", "content abc", "end by close"],
        ),
        Sample::responses(
            "a length in HTTP/1.0",
            &[ResponseTo::Other],
            "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            &["HTTP/1.0 200, 3 bytes", "content abc", "end"],
        ),
        Sample::responses(
            "an error to CONNECT has content",
            &[ResponseTo::Connect],
            "HTTP/1.1 403 No\r\nContent-Length: 3\r\n\r\nabc",
            &["HTTP/1.1 403, 3 bytes", "content abc", "end"],
        ),
        Sample::responses(
            "a redirect to CONNECT has content",
            &[ResponseTo::Connect],
            "HTTP/1.1 302 There\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            &["HTTP/1.1 302, chunked", "end"],
        ),
    ]
}

fn without_body() -> Vec<Sample> {
    let head = |name, to, status: u16, lines: &str| {
        // The following bytes must be the next response, not content.
        let input = format!("HTTP/1.1 {status} x\r\n{lines}\r\nHTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n");
        let event = format!("HTTP/1.1 {status}");
        Sample::responses(name, &[to, ResponseTo::Other], input, &[&event, "HTTP/1.1 404"])
    };
    vec![
        head("204", ResponseTo::Other, 204, ""),
        head("204 with a length", ResponseTo::Other, 204, "Content-Length: 5\r\n"),
        head("204 with chunked", ResponseTo::Other, 204, CHUNKED),
        head("304", ResponseTo::Other, 304, ""),
        head("304 with a length", ResponseTo::Other, 304, "Content-Length: 5\r\n"),
        head("304 with chunked", ResponseTo::Other, 304, CHUNKED),
        head("304 to HEAD with a length", ResponseTo::Head, 304, "Content-Length: 5\r\n"),
        head("HEAD", ResponseTo::Head, 200, ""),
        head("HEAD with a length", ResponseTo::Head, 200, "Content-Length: 5\r\n"),
        head("HEAD with chunked", ResponseTo::Head, 200, CHUNKED),
        head("HEAD with an error", ResponseTo::Head, 500, "Content-Length: 5\r\n"),
        head("205 with a length of 0", ResponseTo::Other, 205, "Content-Length: 0\r\n"),
    ]
}

fn lengths_refused() -> Vec<Sample> {
    let broken = |name, lines: &str, error| Sample::refused_response(name, ok(lines, "abc"), error);
    let head = |name, lines: &str, error| {
        Sample::responses(name, &[ResponseTo::Head], ok(lines, ""), &[&refused(error)])
    };
    vec![
        broken("a length with a plus", "Content-Length: +3\r\n", Error::ContentLengthInvalid),
        broken("a list of lengths", "Content-Length: 3, 3\r\n", Error::ContentLengthInvalid),
        broken("an empty length", "Content-Length:\r\n", Error::ContentLengthInvalid),
        broken(
            "a length too large",
            "Content-Length: 18446744073709551616\r\n",
            Error::ContentLengthOverflow,
        ),
        broken("two lengths", "Content-Length: 3\r\nContent-Length: 4\r\n", Error::ContentLengthRepeated),
        broken(
            "two equal lengths",
            "Content-Length: 3\r\nContent-Length: 3\r\n",
            Error::ContentLengthRepeated,
        ),
        broken(
            "coding and length",
            &["Content-Length: 3\r\n", CHUNKED].concat(),
            Error::TransferEncodingWithContentLength,
        ),
        head("a bad length to HEAD", "Content-Length: x\r\n", Error::ContentLengthInvalid),
        head(
            "coding and length to HEAD",
            &["Content-Length: 3\r\n", CHUNKED].concat(),
            Error::TransferEncodingWithContentLength,
        ),
        Sample::refused_response(
            "coding and length in 204",
            format!("HTTP/1.1 204 x\r\nContent-Length: 3\r\n{CHUNKED}\r\n"),
            Error::TransferEncodingWithContentLength,
        ),
    ]
}

fn codings_refused() -> Vec<Sample> {
    let coding = |name, value: &str, error| {
        Sample::refused_response(name, ok(&format!("Transfer-Encoding: {value}\r\n"), "abc"), error)
    };
    vec![
        coding("gzip, which was not requested", "gzip", Error::TransferCodingUnknown),
        coding("identity", "identity", Error::TransferCodingUnknown),
        coding("gzip before chunked", "gzip, chunked", Error::TransferCodingUnknown),
        coding("gzip after chunked", "chunked, gzip", Error::TransferCodingUnknown),
        coding("chunked twice", "chunked, chunked", Error::ChunkedRepeated),
        coding("chunked with a parameter", "chunked;a", Error::TransferCodingUnknown),
        coding("chunked with NUL", "chunked\0", Error::FieldValueInvalid),
        Sample::refused_response(
            "chunked in HTTP/1.0",
            format!("HTTP/1.0 200 OK\r\n{CHUNKED}\r\n0\r\n\r\n"),
            Error::TransferEncodingInHttp10,
        ),
    ]
}

fn ends() -> Vec<Sample> {
    let cut = |name, lines: &str, body: &str, transcript: &[&str]| {
        let mut transcript = transcript.to_vec();
        let incomplete = refused(Error::IncompleteMessage);
        transcript.push(&incomplete);
        Sample::responses(name, &[ResponseTo::Other], ok(lines, body), &transcript)
    };
    vec![
        cut("the end before the content", "Content-Length: 3\r\n", "", &["HTTP/1.1 200, 3 bytes"]),
        cut(
            "the end in the content",
            "Content-Length: 3\r\n",
            "ab",
            &["HTTP/1.1 200, 3 bytes", "content ab"],
        ),
        cut("the end in chunk data", CHUNKED, "3\r\nab", &["HTTP/1.1 200, chunked", "content ab"]),
        cut("the end after a chunk", CHUNKED, "3\r\nabc\r\n", &["HTTP/1.1 200, chunked", "content abc"]),
        cut("the end after the last chunk", CHUNKED, "0\r\n", &["HTTP/1.1 200, chunked"]),
        Sample::responses(
            "the end before the second response",
            &[ResponseTo::Other; 2],
            ok("Content-Length: 0\r\n", ""),
            &["HTTP/1.1 200", &refused(Error::IncompleteMessage)],
        ),
        Sample::refused_response(
            "the end in the header section",
            "HTTP/1.1 200 OK\r\nA: b\r\n",
            Error::IncompleteMessage,
        ),
    ]
}

fn limits() -> Vec<Sample> {
    let other = &[ResponseTo::Other];
    let five = |limits: &mut thruway_http1::Limits| limits.content_bytes = 5;
    vec![
        Sample::responses(
            "content at the limit until the close",
            other,
            ok("", "abcde"),
            &["HTTP/1.1 200, until close", "content abcde", "end by close"],
        )
        .with(five),
        Sample::responses(
            "content above the limit until the close",
            other,
            ok("", "abcdef"),
            &["HTTP/1.1 200, until close", "content abcde", &refused(Error::ContentTooLarge)],
        )
        .with(five),
        Sample::responses(
            "any content where none is allowed",
            other,
            ok("", "a"),
            &["HTTP/1.1 200, until close", &refused(Error::ContentTooLarge)],
        )
        .with(|limits| limits.content_bytes = 0),
        Sample::refused_response(
            "a length above the limit",
            ok("Content-Length: 6\r\n", "abcdef"),
            Error::ContentTooLarge,
        )
        .with(five),
        Sample::responses(
            "chunks above the limit",
            other,
            ok(CHUNKED, "5\r\nabcde\r\n1\r\nf\r\n0\r\n\r\n"),
            &["HTTP/1.1 200, chunked", "content abcde", &refused(Error::ContentTooLarge)],
        )
        .with(five),
    ]
}
