//! Status lines and header sections of responses (RFC 9112 §4 and §5).

use thruway_http1::{Error, ResponseTo};

use super::Sample;

pub(crate) fn samples() -> Vec<Sample> {
    let mut samples = accepted();
    samples.extend(refused_lines());
    samples.extend(refused_sections());
    samples
}

fn accepted() -> Vec<Sample> {
    let one = |name, line: &str, event: &str| {
        Sample::responses(
            name,
            &[ResponseTo::Other],
            format!("{line}\r\nContent-Length: 0\r\n\r\n"),
            &[event],
        )
    };
    let longest = format!("HTTP/1.1 200 {}", "a".repeat(1024 - 15));
    vec![
        one("a phrase", "HTTP/1.1 200 OK", "HTTP/1.1 200"),
        one("a phrase of many words", "HTTP/1.1 404 It is gone, alas\t!", "HTTP/1.1 404"),
        one("no phrase", "HTTP/1.1 200 ", "HTTP/1.1 200"),
        one("no phrase and no space", "HTTP/1.1 200", "HTTP/1.1 200"),
        one("a phrase of spaces", "HTTP/1.1 200   ", "HTTP/1.1 200"),
        one("a phrase above ASCII", "HTTP/1.1 200 é", "HTTP/1.1 200"),
        one("HTTP/1.0", "HTTP/1.0 200 OK", "HTTP/1.0 200"),
        one("a status without a name", "HTTP/1.1 299 x", "HTTP/1.1 299"),
        one("the greatest status", "HTTP/1.1 999 x", "HTTP/1.1 999"),
        one("the longest phrase", &longest, "HTTP/1.1 200"),
        Sample::responses("nothing expected and nothing came", &[], "", &[]),
    ]
}

fn refused_lines() -> Vec<Sample> {
    let broken = |name, line: &str, error| {
        Sample::refused_response(name, format!("{line}\r\nContent-Length: 0\r\n\r\n"), error)
    };
    let invalid = |name, line: &str| broken(name, line, Error::StatusLineInvalid);
    vec![
        invalid("two digits", "HTTP/1.1 20 OK"),
        invalid("four digits", "HTTP/1.1 2000 OK"),
        invalid("a status below 100", "HTTP/1.1 099 x"),
        invalid("a status of 0", "HTTP/1.1 000 x"),
        invalid("letters for a status", "HTTP/1.1 abc OK"),
        invalid("a sign before the status", "HTTP/1.1 +20 OK"),
        invalid("no status", "HTTP/1.1"),
        invalid("no status but a space", "HTTP/1.1 "),
        invalid("two spaces before the status", "HTTP/1.1  200 OK"),
        invalid("a tab before the status", "HTTP/1.1\t200 OK"),
        invalid("a tab after the status", "HTTP/1.1 200\tOK"),
        invalid("a letter after the status", "HTTP/1.1 200x"),
        invalid("a control character in the phrase", "HTTP/1.1 200 O\x01K"),
        invalid("NUL in the phrase", "HTTP/1.1 200 O\0K"),
        invalid("an empty line before", "\r\nHTTP/1.1 200 OK"),
        invalid("lower case", "http/1.1 200 OK"),
        invalid("a request", "GET / HTTP/1.1"),
        invalid("another protocol", "ICY 200 OK"),
        invalid("only a field line", "Content-Type: a"),
        invalid("a line too long", &format!("HTTP/1.1 200 {}", "a".repeat(1024 - 14))),
        invalid("a line without end", &"HTTP/1.1 200 ".repeat(200)),
        broken("HTTP/2.0", "HTTP/2.0 200 OK", Error::VersionNotSupported),
        broken("HTTP/1.2", "HTTP/1.2 200 OK", Error::VersionNotSupported),
        Sample::refused_response(
            "LF alone ends the status line",
            "HTTP/1.1 200 OK\nA: b\n\n",
            Error::BareLineFeed,
        ),
        Sample::refused_response(
            "LF alone right after the status",
            "HTTP/1.1 200\nA: b\n\n",
            Error::StatusLineInvalid,
        ),
        Sample::refused_response("CR in the phrase", "HTTP/1.1 200 O\rK\r\n\r\n", Error::BareCarriageReturn),
        Sample::refused_response("no byte of a response", "", Error::IncompleteMessage),
        Sample::refused_response("the end in the version", "HTTP/1.", Error::IncompleteMessage),
        Sample::refused_response("the end in the status", "HTTP/1.1 20", Error::IncompleteMessage),
        Sample::refused_response("the end in the phrase", "HTTP/1.1 200 O", Error::IncompleteMessage),
        Sample::refused_response(
            "the end after the status line",
            "HTTP/1.1 200 OK\r\n",
            Error::IncompleteMessage,
        ),
    ]
}

fn refused_sections() -> Vec<Sample> {
    let broken = |name, lines: &str, error| {
        Sample::refused_response(name, format!("HTTP/1.1 200 OK\r\n{lines}\r\n"), error)
    };
    vec![
        broken("a folded line in a response", "A: b\r\n c\r\n", Error::LineFolding),
        broken("a space before the colon in a response", "A : b\r\n", Error::WhitespaceBeforeColon),
        broken("a name that is no token in a response", "A b\r\n", Error::WhitespaceBeforeColon),
        broken("no name in a response", ": b\r\n", Error::FieldNameInvalid),
        broken("NUL in a value of a response", "A: \0\r\n", Error::FieldValueInvalid),
        broken("LF alone in a response", "A: b\nC: d\r\n", Error::BareLineFeed),
        broken("CR alone in a response", "A: b\rC: d\r\n", Error::BareCarriageReturn),
        broken("a response section above its limit", "A: bcdefghijklmn\r\n", Error::HeaderSectionTooLarge)
            .with(|limits| limits.header_section_bytes = 16),
        broken("too many lines in a response", "A: b\r\nA: b\r\n", Error::FieldLinesTooMany)
            .with(|limits| limits.field_lines = 1),
    ]
}
