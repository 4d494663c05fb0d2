//! Header sections of requests (RFC 9112 §5) and the `Host` field.

use thruway_http1::Error;

use super::{Sample, refused};

pub(crate) fn samples() -> Vec<Sample> {
    let mut samples = accepted();
    samples.extend(broken_names());
    samples.extend(broken_values());
    samples.extend(hosts());
    samples.extend(limits());
    samples
}

fn with_lines(lines: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").into_bytes()
}

fn accepted() -> Vec<Sample> {
    let one = |name, lines: &str| Sample::requests(name, with_lines(lines), &["GET / HTTP/1.1"]);
    vec![
        one("no more lines", ""),
        one("no space after the colon", "A:b\r\n"),
        one("whitespace around the value", "A: \t b c \t \r\n"),
        one("an empty value", "A:\r\n"),
        one("a value of whitespace", "A: \t \r\n"),
        one("a colon in the value", "A: :b:\r\n"),
        one("a tab in the value", "A: b\tc\r\n"),
        one("every token character in the name", "!#$%&'*+-.^_`|~09azAZ: b\r\n"),
        one("a name longer than two words of the machine", "Abcdefghijklmnopqrstuvwxyz: b\r\n"),
        one("bytes above ASCII in the value", "A: é\r\n"),
        one("the same name twice", "A: b\r\na: c\r\n"),
        one("a name that looks like a request line", "GET: / HTTP/1.1\r\n"),
        one("names that nearly frame the message", "Content-Lengths: 5\r\nXTransfer-Encoding: chunked\r\n"),
        one("names that some map to others", "Content_Length: 5\r\nTransfer_Encoding: chunked\r\n"),
        Sample::requests(
            "a value that is not UTF-8",
            b"GET / HTTP/1.1\r\nHost: a\r\nA: \xff\x80\r\n\r\n".as_slice(),
            &["GET / HTTP/1.1"],
        ),
    ]
}

fn broken_names() -> Vec<Sample> {
    let broken = |name, lines: &str, error| Sample::refused_request(name, with_lines(lines), error);
    vec![
        broken("no colon", "A\r\n", Error::FieldNameInvalid),
        broken("no name", ": b\r\n", Error::FieldNameInvalid),
        broken("no name and no value", ":\r\n", Error::FieldNameInvalid),
        broken("a bracket in the name", "A[b]: c\r\n", Error::FieldNameInvalid),
        broken("a quote in the name", "\"A\": b\r\n", Error::FieldNameInvalid),
        broken("NUL in the name", "A\0: b\r\n", Error::FieldNameInvalid),
        broken(
            "a control character before the name",
            "\x0bTransfer-Encoding: chunked\r\n",
            Error::FieldNameInvalid,
        ),
        broken("bytes above ASCII in the name", "Aé: b\r\n", Error::FieldNameInvalid),
        broken("a space before the colon", "A : b\r\n", Error::WhitespaceBeforeColon),
        broken("a tab before the colon", "Content-Length\t: 5\r\n", Error::WhitespaceBeforeColon),
        broken("a space in the name", "A b: c\r\n", Error::WhitespaceBeforeColon),
        broken("a folded line", "A: b\r\n c\r\n", Error::LineFolding),
        broken("a line folded with a tab", "A: b\r\n\tc\r\n", Error::LineFolding),
        broken("a folded line that is empty", "A: b\r\n \r\n", Error::LineFolding),
        broken("a folded field that frames", "Transfer-Encoding:\r\n chunked\r\n", Error::LineFolding),
        Sample::refused_request(
            "whitespace before the first line",
            "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
            Error::LineFolding,
        ),
        broken("LF in the name", "A\nb: c\r\n", Error::BareLineFeed),
        broken("CR in the name", "A\rb: c\r\n", Error::FieldNameInvalid),
    ]
}

fn broken_values() -> Vec<Sample> {
    let broken = |name, lines: &str, error| Sample::refused_request(name, with_lines(lines), error);
    let mut samples = vec![
        broken("LF alone ends a line", "A: b\nC: d\r\n", Error::BareLineFeed),
        broken("LF alone ends an empty value", "A:\nC: d\r\n", Error::BareLineFeed),
        broken("CR in the value", "A: b\rC: d\r\n", Error::BareCarriageReturn),
        broken("CR at the end of the value", "A: b\r\r\n", Error::BareCarriageReturn),
        broken("CR before the value", "A:\r b\r\n", Error::BareCarriageReturn),
        broken("NUL in the value", "A: b\0\r\n", Error::FieldValueInvalid),
        broken("NUL before the value", "A:\0b\r\n", Error::FieldValueInvalid),
        broken("DEL in the value", "A: b\x7f\r\n", Error::FieldValueInvalid),
        broken("an escape in the value", "A: \x1b[31m\r\n", Error::FieldValueInvalid),
        Sample::refused_request(
            "LF alone ends the section",
            "GET / HTTP/1.1\r\nHost: a\r\n\nGET",
            Error::BareLineFeed,
        ),
        Sample::refused_request(
            "CR alone ends the section",
            "GET / HTTP/1.1\r\nHost: a\r\n\rGET",
            Error::BareCarriageReturn,
        ),
        Sample::refused_request("the end in a name", "GET / HTTP/1.1\r\nHos", Error::IncompleteMessage),
        Sample::refused_request("the end after a colon", "GET / HTTP/1.1\r\nHost:", Error::IncompleteMessage),
        Sample::refused_request("the end in a value", "GET / HTTP/1.1\r\nHost: a", Error::IncompleteMessage),
        Sample::refused_request(
            "the end after a line",
            "GET / HTTP/1.1\r\nHost: a\r\n",
            Error::IncompleteMessage,
        ),
        Sample::refused_request(
            "the end in the empty line",
            "GET / HTTP/1.1\r\nHost: a\r\n\r",
            Error::IncompleteMessage,
        ),
    ];
    for byte in (0..b' ').filter(|byte| !b"\t\r\n".contains(byte)) {
        let mut input = b"GET / HTTP/1.1\r\nHost: a\r\nA: b".to_vec();
        input.extend_from_slice(&[byte, b'c', b'\r', b'\n', b'\r', b'\n']);
        samples.push(Sample::refused_request(
            "a control character in the value",
            input,
            Error::FieldValueInvalid,
        ));
    }
    samples
}

fn hosts() -> Vec<Sample> {
    let host = |name, value: &str| {
        Sample::requests(name, format!("GET / HTTP/1.1\r\nHost: {value}\r\n\r\n"), &["GET / HTTP/1.1"])
    };
    let broken = |name, value: &str| {
        Sample::refused_request(name, format!("GET / HTTP/1.1\r\nHost: {value}\r\n\r\n"), Error::HostInvalid)
    };
    let refused = Sample::refused_request;
    vec![
        host("a host that is empty", ""),
        host("a host with a port", "a:80"),
        host("a host with an empty port", "a:"),
        host("a host that is an IPv4 address", "127.0.0.1:8080"),
        host("a host that is an IPv6 address", "[::1]:80"),
        host("a host with an underscore", "a_b"),
        host("a host with whitespace around", "\t a \t"),
        broken("a host with a user", "b@a"),
        broken("a port of no host", ":80"),
        broken("a host with a path", "a/b"),
        broken("a host that is a URI", "http://a"),
        broken("a host with a bad port", "a:b"),
        broken("a host with a port too large", "a:65536"),
        broken("a host with two ports", "a:1:2"),
        broken("two hosts in a list", "a, b"),
        broken("a host with a space", "a b"),
        broken("a host with half an escape", "a%2"),
        broken("a host that some servers decode", "%61dmin.example"),
        broken("a host with an encoded dot", "a%2eb:80"),
        broken("a host with a bracket left open", "[::1"),
        broken("a host with bytes above ASCII", "é"),
        refused("no host", "GET / HTTP/1.1\r\n\r\n", Error::HostMissing),
        refused("no host with another field", "GET / HTTP/1.1\r\nA: b\r\n\r\n", Error::HostMissing),
        refused("no host with an absolute form", "GET http://a/ HTTP/1.1\r\n\r\n", Error::HostMissing),
        refused("two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", Error::HostRepeated),
        refused("two equal hosts", "GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", Error::HostRepeated),
        refused("two empty hosts", "GET / HTTP/1.1\r\nHost:\r\nHost:\r\n\r\n", Error::HostRepeated),
        refused("two hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", Error::HostRepeated),
        refused("a bad host in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a b\r\n\r\n", Error::HostInvalid),
    ]
}

fn limits() -> Vec<Sample> {
    // "Host: a\r\n" and the empty line take 11 bytes, and "A: \r\n" takes 5 more.
    let section = |bytes: usize| with_lines(&format!("A: {}\r\n", "b".repeat(bytes - 16)));
    let lines = |count: usize| with_lines(&"A: b\r\n".repeat(count - 1));
    let many = |name, input: Vec<u8>| {
        Sample::requests(name, input, &["GET / HTTP/1.1"]).with(|limits| limits.field_lines = 4)
    };
    let large = |name, input: Vec<u8>| {
        Sample::requests(name, input, &["GET / HTTP/1.1"]).with(|limits| limits.header_section_bytes = 40)
    };
    let too_many = |name, input: Vec<u8>| {
        Sample::refused_request(name, input, Error::FieldLinesTooMany).with(|limits| limits.field_lines = 4)
    };
    let too_large = |name, input: Vec<u8>| {
        Sample::refused_request(name, input, Error::HeaderSectionTooLarge)
            .with(|limits| limits.header_section_bytes = 40)
    };
    let mut twice = lines(4);
    twice.extend(lines(5));
    vec![
        many("as many field lines as allowed", lines(4)),
        too_many("one field line more than allowed", lines(5)),
        Sample::requests(
            "limits are for each request",
            twice,
            &["GET / HTTP/1.1", &refused(Error::FieldLinesTooMany)],
        )
        .with(|limits| limits.field_lines = 4),
        large("a header section at its limit", section(40)),
        too_large("a header section above its limit", section(41)),
        too_large("a name without end", with_lines(&"A".repeat(100))),
        too_large("a value without end", [b"GET / HTTP/1.1\r\nA:".as_slice(), &[b' '; 100]].concat()),
        Sample::refused_request(
            "a broken line at the limit",
            "GET / HTTP/1.1\r\nAb\0\r\n\r\n",
            Error::FieldNameInvalid,
        )
        .with(|limits| limits.header_section_bytes = 3),
        Sample::refused_request(
            "a broken line past the limit",
            "GET / HTTP/1.1\r\nAb\0\r\n\r\n",
            Error::HeaderSectionTooLarge,
        )
        .with(|limits| limits.header_section_bytes = 2),
        Sample::refused_request(
            "a section of nothing",
            "GET / HTTP/1.1\r\n\r\n",
            Error::HeaderSectionTooLarge,
        )
        .with(|limits| limits.header_section_bytes = 0),
        Sample::requests("a section of an empty line", "GET / HTTP/1.0\r\n\r\n", &["GET / HTTP/1.0, last"])
            .with(|limits| limits.header_section_bytes = 2),
    ]
}
