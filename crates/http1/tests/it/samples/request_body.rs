//! Samples of the fields that frame the body of a request, valid and invalid (RFC 9112 §6).

use thruway_http1::Error;

use super::{Sample, refused};

pub(crate) fn samples() -> Vec<Sample> {
    let mut samples = framed();
    samples.extend(lengths_refused());
    samples.extend(codings_refused());
    samples.extend(ends());
    samples.extend(limits());
    samples
}

fn post(lines: &str, body: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n{body}").into_bytes()
}

fn framed() -> Vec<Sample> {
    let one = |name, lines: &str, body: &str, transcript: &[&str]| {
        Sample::requests(name, post(lines, body), transcript)
    };
    let three = &["POST / HTTP/1.1, 3 bytes", "content abc", "end"];
    let chunked = &["POST / HTTP/1.1, chunked", "content abc", "end"];
    let chunks = "3\r\nabc\r\n0\r\n\r\n";
    vec![
        one("a length", "Content-Length: 3\r\n", "abc", three),
        one("a length in another case", "cONTENT-lENGTH: 3\r\n", "abc", three),
        one("a length with whitespace around", "Content-Length: \t3 \r\n", "abc", three),
        one("a length with leading zeros", "Content-Length: 00000000000000000000003\r\n", "abc", three),
        one("a length of 0", "Content-Length: 0\r\n", "", &["POST / HTTP/1.1"]),
        one("chunked", "Transfer-Encoding: chunked\r\n", chunks, chunked),
        one("chunked in another case", "tRANSFER-eNCODING: CHUNKED\r\n", chunks, chunked),
        one("chunked with empty members beside it", "Transfer-Encoding: , ,chunked,\r\n", chunks, chunked),
        one(
            "chunked after an empty line of that name",
            "Transfer-Encoding:\r\nTransfer-Encoding: chunked\r\n",
            chunks,
            chunked,
        ),
        Sample::requests(
            "GET with a body",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
            &["GET / HTTP/1.1, 3 bytes", "content abc", "end"],
        ),
        Sample::requests(
            "HEAD with a body",
            "HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
            &["HEAD / HTTP/1.1, 3 bytes", "content abc", "end"],
        ),
        Sample::requests(
            "HTTP/1.0 with a length",
            "POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc",
            &["POST / HTTP/1.0, 3 bytes, last", "content abc", "end"],
        ),
        Sample::requests(
            "HTTP/1.0 without a length has no body that lasts until the close",
            "POST / HTTP/1.0\r\n\r\nabc",
            &["POST / HTTP/1.0, last", "3 unused"],
        ),
        Sample::requests(
            "content that looks like a request",
            post("Content-Length: 28\r\n", "GET /b HTTP/1.1\r\nHost: a\r\n\r\n"),
            &["POST / HTTP/1.1, 28 bytes", r"content GET /b HTTP/1.1\r\nHost: a\r\n\r\n", "end"],
        ),
        Sample::requests(
            "the next request follows the content",
            post("Content-Length: 1\r\n", "aGET /b HTTP/1.1\r\nHost: a\r\n\r\n"),
            &["POST / HTTP/1.1, 1 bytes", "content a", "end", "GET /b HTTP/1.1"],
        ),
        Sample::requests(
            "an empty line after the content is passed over",
            post("Content-Length: 1\r\n", "a\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n"),
            &["POST / HTTP/1.1, 1 bytes", "content a", "end", "GET /b HTTP/1.1"],
        ),
        Sample::requests(
            "content without a length is the next request",
            post("", "abc"),
            &["POST / HTTP/1.1", &refused(Error::IncompleteMessage)],
        ),
    ]
}

fn lengths_refused() -> Vec<Sample> {
    let length = |name, value: &str, error| {
        Sample::refused_request(name, post(&format!("Content-Length: {value}\r\n"), "abc"), error)
    };
    let lines = |name, lines: &str, error| Sample::refused_request(name, post(lines, "abc"), error);
    vec![
        length("a length that is empty", "", Error::ContentLengthInvalid),
        length("a length of whitespace", " \t", Error::ContentLengthInvalid),
        length("a length with a plus", "+3", Error::ContentLengthInvalid),
        length("a length with a minus", "-3", Error::ContentLengthInvalid),
        length("a length of minus 0", "-0", Error::ContentLengthInvalid),
        length("a length with a space inside", "3 3", Error::ContentLengthInvalid),
        length("a length with a point", "3.0", Error::ContentLengthInvalid),
        length("a length with an exponent", "3e0", Error::ContentLengthInvalid),
        length("a length with an underscore", "1_0", Error::ContentLengthInvalid),
        length("a length in hexadecimal", "0x3", Error::ContentLengthInvalid),
        length("a length of letters", "abc", Error::ContentLengthInvalid),
        length("a length in quotes", "\"3\"", Error::ContentLengthInvalid),
        length("a length with a semicolon", "3;3", Error::ContentLengthInvalid),
        length("a length in other digits", "３", Error::ContentLengthInvalid),
        length("a list of equal lengths", "3, 3", Error::ContentLengthInvalid),
        length("a list of lengths", "3,4", Error::ContentLengthInvalid),
        length("a list with an empty member", "3,", Error::ContentLengthInvalid),
        length("a length one above 64 bits", "18446744073709551616", Error::ContentLengthOverflow),
        length("a length that would wrap round to 3", "18446744073709551619", Error::ContentLengthOverflow),
        length(
            "a length of forty digits",
            "9999999999999999999999999999999999999999",
            Error::ContentLengthOverflow,
        ),
        lines("two lengths", "Content-Length: 3\r\nContent-Length: 4\r\n", Error::ContentLengthRepeated),
        lines(
            "two equal lengths",
            "Content-Length: 3\r\ncontent-length: 3\r\n",
            Error::ContentLengthRepeated,
        ),
        lines(
            "a good length and a bad one",
            "Content-Length: 3\r\nContent-Length: x\r\n",
            Error::ContentLengthRepeated,
        ),
        lines(
            "a bad length and a good one",
            "Content-Length: x\r\nContent-Length: 3\r\n",
            Error::ContentLengthInvalid,
        ),
        Sample::refused_request(
            "two lengths in HTTP/1.0",
            "POST / HTTP/1.0\r\nContent-Length: 0\r\nContent-Length: 3\r\n\r\nabc",
            Error::ContentLengthRepeated,
        ),
    ]
}

fn codings_refused() -> Vec<Sample> {
    let coding = |name, value: &str, error| {
        Sample::refused_request(name, post(&format!("Transfer-Encoding: {value}\r\n"), "0\r\n\r\n"), error)
    };
    let lines = |name, lines: &str, error| Sample::refused_request(name, post(lines, "0\r\n\r\n"), error);
    let both = Error::TransferEncodingWithContentLength;
    let http10 = |lines: &str| format!("POST / HTTP/1.0\r\n{lines}\r\n0\r\n\r\n");
    vec![
        coding("no coding", "", Error::ChunkedNotFinal),
        coding("an empty list of codings", ",", Error::ChunkedNotFinal),
        coding("identity", "identity", Error::ChunkedNotFinal),
        coding("gzip", "gzip", Error::ChunkedNotFinal),
        coding("gzip after chunked", "chunked, gzip", Error::ChunkedNotFinal),
        coding("identity after chunked", "chunked, identity", Error::ChunkedNotFinal),
        coding("gzip before chunked", "gzip, chunked", Error::TransferCodingUnknown),
        coding("identity before chunked", "identity, chunked", Error::TransferCodingUnknown),
        coding("chunked twice", "chunked, chunked", Error::ChunkedRepeated),
        coding("chunked around gzip", "chunked, gzip, chunked", Error::ChunkedRepeated),
        coding("chunked with a parameter", "chunked;a=b", Error::ChunkedNotFinal),
        coding("chunked with an empty parameter", "chunked;", Error::ChunkedNotFinal),
        coding("chunked in quotes", "\"chunked\"", Error::ChunkedNotFinal),
        coding("chunked in a quoted string", "a=\"b, chunked", Error::ChunkedNotFinal),
        coding("chunked with a letter before", "xchunked", Error::ChunkedNotFinal),
        coding("chunked with a letter after", "chunkedx", Error::ChunkedNotFinal),
        coding("chunked with a space inside", "chun ked", Error::ChunkedNotFinal),
        coding("chunked after another word", "x chunked", Error::ChunkedNotFinal),
        coding("chunked with a no-break space", "chunked\u{a0}", Error::ChunkedNotFinal),
        coding("chunked with a vertical tab", "\x0bchunked", Error::FieldValueInvalid),
        coding("chunked with NUL", "chunked\0", Error::FieldValueInvalid),
        lines(
            "two lines of chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            Error::ChunkedRepeated,
        ),
        lines(
            "a second line with another coding",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
            Error::ChunkedNotFinal,
        ),
        lines(
            "a first line with another coding",
            "Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n",
            Error::TransferCodingUnknown,
        ),
        lines("coding and length", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", both),
        lines("length and coding", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", both),
        lines("coding and a length of 0", "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", both),
        lines("unknown coding and length", "Transfer-Encoding: x\r\nContent-Length: 5\r\n", both),
        lines("empty coding and length", "Transfer-Encoding:\r\nContent-Length: 5\r\n", both),
        Sample::refused_request(
            "chunked in HTTP/1.0",
            http10("Transfer-Encoding: chunked\r\n"),
            Error::TransferEncodingInHttp10,
        ),
        Sample::refused_request(
            "chunked in HTTP/1.0 that is kept alive",
            http10("Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n"),
            Error::TransferEncodingInHttp10,
        ),
        Sample::refused_request(
            "identity in HTTP/1.0",
            http10("Transfer-Encoding: identity\r\n"),
            Error::TransferEncodingInHttp10,
        ),
        Sample::refused_request(
            "coding and length in HTTP/1.0",
            http10("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
            Error::TransferEncodingInHttp10,
        ),
    ]
}

fn ends() -> Vec<Sample> {
    let cut = |name, lines: &str, body: &str, transcript: &[&str]| {
        let mut transcript = transcript.to_vec();
        let incomplete = refused(Error::IncompleteMessage);
        transcript.push(&incomplete);
        Sample::requests(name, post(lines, body), &transcript)
    };
    let chunked = "Transfer-Encoding: chunked\r\n";
    let head = "POST / HTTP/1.1, chunked";
    vec![
        cut("the end before the content", "Content-Length: 3\r\n", "", &["POST / HTTP/1.1, 3 bytes"]),
        cut(
            "the end in the content",
            "Content-Length: 3\r\n",
            "ab",
            &["POST / HTTP/1.1, 3 bytes", "content ab"],
        ),
        cut("the end before the first chunk", chunked, "", &[head]),
        cut("the end in a chunk size", chunked, "3", &[head]),
        cut("the end in a chunk line end", chunked, "3\r", &[head]),
        cut("the end in a chunk extension", chunked, "3;a=\"", &[head]),
        cut("the end before chunk data", chunked, "3\r\n", &[head]),
        cut("the end in chunk data", chunked, "3\r\nab", &[head, "content ab"]),
        cut("the end after chunk data", chunked, "3\r\nabc", &[head, "content abc"]),
        cut("the end in the line end after chunk data", chunked, "3\r\nabc\r", &[head, "content abc"]),
        cut("the end after a chunk", chunked, "3\r\nabc\r\n", &[head, "content abc"]),
        cut("the end in the last chunk", chunked, "3\r\nabc\r\n0", &[head, "content abc"]),
        cut("the end after the last chunk", chunked, "3\r\nabc\r\n0\r\n", &[head, "content abc"]),
        cut("the end in the trailer section", chunked, "0\r\nA: b\r\n", &[head]),
        cut("the end in the line end after the last chunk", chunked, "0\r\n\r", &[head]),
    ]
}

fn limits() -> Vec<Sample> {
    let five = |limits: &mut thruway_http1::Limits| limits.content_bytes = 5;
    let chunked = "Transfer-Encoding: chunked\r\n";
    vec![
        Sample::requests(
            "a length at the limit",
            post("Content-Length: 5\r\n", "abcde"),
            &["POST / HTTP/1.1, 5 bytes", "content abcde", "end"],
        )
        .with(five),
        Sample::refused_request(
            "a length above the limit",
            post("Content-Length: 6\r\n", "abcdef"),
            Error::ContentTooLarge,
        )
        .with(five),
        Sample::requests(
            "the greatest length",
            post("Content-Length: 18446744073709551615\r\n", "abc"),
            &[
                "POST / HTTP/1.1, 18446744073709551615 bytes",
                "content abc",
                &refused(Error::IncompleteMessage),
            ],
        )
        .with(|limits| limits.content_bytes = u64::MAX),
        Sample::requests(
            "chunks at the limit",
            post(chunked, "2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"),
            &["POST / HTTP/1.1, chunked", "content abcde", "end"],
        )
        .with(five),
        Sample::requests(
            "chunks above the limit",
            post(chunked, "2\r\nab\r\n4\r\ncdef\r\n0\r\n\r\n"),
            &["POST / HTTP/1.1, chunked", "content ab", &refused(Error::ContentTooLarge)],
        )
        .with(five),
        Sample::requests(
            "a chunk above the limit",
            post(chunked, "ffffffffffffffff\r\nabc"),
            &["POST / HTTP/1.1, chunked", &refused(Error::ContentTooLarge)],
        )
        .with(five),
        Sample::requests(
            "chunks that together exceed 64 bits",
            post(chunked, "1\r\na\r\nffffffffffffffff\r\nbc"),
            &["POST / HTTP/1.1, chunked", "content a", &refused(Error::ChunkSizeOverflow)],
        )
        .with(|limits| limits.content_bytes = u64::MAX),
    ]
}
