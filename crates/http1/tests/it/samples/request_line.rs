//! Request lines (RFC 9112 §3).

use thruway_http1::Error;

use super::{Sample, refused};

pub(crate) fn samples() -> Vec<Sample> {
    let mut samples = accepted();
    samples.extend(broken_methods());
    samples.extend(broken_targets());
    samples.extend(broken_versions());
    samples.extend(broken_ends());
    samples.extend(limits());
    samples
}

fn accepted() -> Vec<Sample> {
    let one = |name, line: &str, event: &str| {
        Sample::requests(name, format!("{line}\r\nHost: example.com\r\n\r\n"), &[event])
    };
    vec![
        one("origin form", "GET /a/b?c=d&e=%20 HTTP/1.1", "GET /a/b?c=d&e=%20 HTTP/1.1"),
        one("only a slash", "GET / HTTP/1.1", "GET / HTTP/1.1"),
        one(
            "characters that are common though no URI has them",
            r#"GET /{a}|"b"^[]?{a}|'b'^`[] HTTP/1.1"#,
            r#"GET /{a}|"b"^[]?{a}|'b'^`[] HTTP/1.1"#,
        ),
        one("a backslash in the query", "GET /a?b\\c HTTP/1.1", "GET /a?b\\c HTTP/1.1"),
        one("two slashes are a path", "GET //evil.example/ HTTP/1.1", "GET //evil.example/ HTTP/1.1"),
        one("absolute form", "GET http://a:8080/b?c HTTP/1.1", "GET http://a:8080/b?c HTTP/1.1"),
        one("absolute form without a path", "GET http://a HTTP/1.1", "GET http://a HTTP/1.1"),
        one("absolute form with only a query", "GET http://a?b HTTP/1.1", "GET http://a?b HTTP/1.1"),
        one(
            "absolute form of another scheme",
            "GET Coap+tcp://[::1]:1/ HTTP/1.1",
            "GET Coap+tcp://[::1]:1/ HTTP/1.1",
        ),
        one("authority form", "CONNECT a:443 HTTP/1.1", "CONNECT a:443 HTTP/1.1, wants a tunnel"),
        one(
            "authority form with an IPv6 address",
            "CONNECT [::1]:443 HTTP/1.1",
            "CONNECT [::1]:443 HTTP/1.1, wants a tunnel",
        ),
        one("asterisk form", "OPTIONS * HTTP/1.1", "OPTIONS * HTTP/1.1"),
        one("OPTIONS in origin form", "OPTIONS /a HTTP/1.1", "OPTIONS /a HTTP/1.1"),
        one("POST without a body", "POST / HTTP/1.1", "POST / HTTP/1.1"),
        one("the shortest method", "X / HTTP/1.1", "X / HTTP/1.1"),
        one("every token character", "!#$%&'*+-.^_`|~09azAZ / HTTP/1.1", "!#$%&'*+-.^_`|~09azAZ / HTTP/1.1"),
        one("methods have a case", "get / HTTP/1.1", "get / HTTP/1.1"),
        one("a method that begins like another", "GETS / HTTP/1.1", "GETS / HTTP/1.1"),
        one("HTTP/1.0", "GET / HTTP/1.0", "GET / HTTP/1.0, last"),
        one("one empty line before", "\r\nGET / HTTP/1.1", "GET / HTTP/1.1"),
        Sample::requests("HTTP/1.0 without Host", "GET / HTTP/1.0\r\n\r\n", &["GET / HTTP/1.0, last"]),
        Sample::requests("nothing at all", "", &[]),
        Sample::requests("half an empty line", "\r", &["1 unused"]),
        Sample::requests("an empty line and nothing else", "\r\n", &["2 unused"]),
    ]
}

fn broken_methods() -> Vec<Sample> {
    let broken =
        |name, line: &str, error| Sample::refused_request(name, format!("{line}\r\nHost: a\r\n\r\n"), error);
    vec![
        broken("no method", " / HTTP/1.1", Error::MethodInvalid),
        broken("a method with a space", "GE T / HTTP/1.1", Error::VersionInvalid),
        broken("a method with a colon", "GET: / HTTP/1.1", Error::MethodInvalid),
        broken("a method with a tab after it", "GET\t/ HTTP/1.1", Error::MethodInvalid),
        broken("a method with a slash", "GET/ / HTTP/1.1", Error::MethodInvalid),
        broken("a method and nothing else", "GET", Error::MethodInvalid),
        broken("whitespace before the method", "\tGET / HTTP/1.1", Error::MethodInvalid),
        broken("two empty lines before", "\r\n\r\nGET / HTTP/1.1", Error::MethodInvalid),
        broken("an empty line that is only LF", "\nGET / HTTP/1.1", Error::MethodInvalid),
        broken("an empty line that is only CR", "\rGET / HTTP/1.1", Error::MethodInvalid),
        broken("a field line", "Host: a", Error::MethodInvalid),
        broken("a response", "HTTP/1.1 200 OK", Error::MethodInvalid),
        broken("NUL first", "\0GET / HTTP/1.1", Error::MethodInvalid),
        Sample::refused_request(
            "bytes above ASCII",
            b"G\xc3\x89T / HTTP/1.1\r\n".as_slice(),
            Error::MethodInvalid,
        ),
        Sample::refused_request(
            "a TLS hello",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".as_slice(),
            Error::MethodInvalid,
        ),
        Sample::refused_request(
            "a byte order mark",
            b"\xef\xbb\xbfGET / HTTP/1.1\r\n".as_slice(),
            Error::MethodInvalid,
        ),
    ]
}

fn broken_targets() -> Vec<Sample> {
    let broken = |name, line: &str| {
        Sample::refused_request(name, format!("{line}\r\nHost: a\r\n\r\n"), Error::RequestTargetInvalid)
    };
    vec![
        broken("no target", "GET  HTTP/1.1"),
        broken("a path without its slash", "GET a HTTP/1.1"),
        broken("a query alone", "GET ?a HTTP/1.1"),
        broken("a fragment", "GET /a#b HTTP/1.1"),
        broken("a fragment after an absolute form", "GET http://a/b#c HTTP/1.1"),
        broken("a fragment right after the host", "GET http://a#c HTTP/1.1"),
        broken("a backslash in the path", "GET /\\a?b HTTP/1.1"),
        broken("a fragment after a query", "GET /a?b#c HTTP/1.1"),
        // HTTP/2 rejects these too. The result must not depend on the version.
        broken("an opening angle bracket in the path", "GET /a<b HTTP/1.1"),
        broken("a closing angle bracket in the path", "GET /a>b HTTP/1.1"),
        broken("a backquote in the path", "GET /a`b HTTP/1.1"),
        broken("an opening angle bracket in the query", "GET /a?b<c HTTP/1.1"),
        broken("a closing angle bracket in the query", "GET /a?b>c HTTP/1.1"),
        broken("a quotation mark in the query", "GET /a?b\"c HTTP/1.1"),
        broken("a percent sign in the host of an absolute form", "GET http://%61.example/ HTTP/1.1"),
        broken("a percent sign in the host of CONNECT", "CONNECT %61.example:443 HTTP/1.1"),
        broken("a backslash after the host", "GET http://a\\@b/ HTTP/1.1"),
        broken("a tab", "GET /a\tb HTTP/1.1"),
        broken("NUL", "GET /a\0b HTTP/1.1"),
        broken("DEL", "GET /a\x7fb HTTP/1.1"),
        broken("bytes above ASCII", "GET /é HTTP/1.1"),
        broken("asterisk with GET", "GET * HTTP/1.1"),
        broken("asterisk and more", "OPTIONS */ HTTP/1.1"),
        broken("CONNECT to a path", "CONNECT / HTTP/1.1"),
        broken("CONNECT to an absolute form", "CONNECT http://a:80/ HTTP/1.1"),
        broken("CONNECT to an asterisk", "CONNECT * HTTP/1.1"),
        broken("CONNECT without a port", "CONNECT a HTTP/1.1"),
        broken("CONNECT with an empty port", "CONNECT a: HTTP/1.1"),
        broken("CONNECT to port 0", "CONNECT a:0 HTTP/1.1"),
        broken("CONNECT to a port too large", "CONNECT a:65536 HTTP/1.1"),
        broken("CONNECT without a host", "CONNECT :443 HTTP/1.1"),
        broken("CONNECT with a user", "CONNECT b@a:443 HTTP/1.1"),
        broken("authority form without CONNECT", "GET a:80 HTTP/1.1"),
        broken("absolute form without a host", "GET http:///a HTTP/1.1"),
        broken("absolute form with only a port", "GET http://:80/ HTTP/1.1"),
        broken("absolute form with a user", "GET http://b@a/ HTTP/1.1"),
        broken("absolute form with a bad port", "GET http://a:b/ HTTP/1.1"),
        broken("absolute form without slashes", "GET http:/a HTTP/1.1"),
        broken("a URI without authority", "GET urn:a HTTP/1.1"),
        broken("a question mark in the scheme", "GET a?b://c/d HTTP/1.1"),
        broken("absolute form without scheme", "GET ://a/ HTTP/1.1"),
        broken("a scheme that begins with a digit", "GET 1ttp://a/ HTTP/1.1"),
        broken("a scheme with a character it cannot have", "GET ht_p://a/ HTTP/1.1"),
        broken("an address without its bracket", "GET http://[::1/ HTTP/1.1"),
        broken("an invalid address", "GET http://[::g]/ HTTP/1.1"),
    ]
}

fn broken_versions() -> Vec<Sample> {
    let broken = |name, version: &str, error| {
        Sample::refused_request(name, format!("GET / {version}\r\nHost: a\r\n\r\n"), error)
    };
    vec![
        broken("HTTP/2.0", "HTTP/2.0", Error::VersionNotSupported),
        broken("HTTP/1.2", "HTTP/1.2", Error::VersionNotSupported),
        broken("HTTP/0.9 by name", "HTTP/0.9", Error::VersionNotSupported),
        broken("HTTP/3.0", "HTTP/3.0", Error::VersionNotSupported),
        broken("HTTP/9.9", "HTTP/9.9", Error::VersionNotSupported),
        Sample::refused_request(
            "the preface of HTTP/2",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            Error::VersionNotSupported,
        ),
        broken("two digits", "HTTP/1.10", Error::VersionInvalid),
        broken("two major digits", "HTTP/11.1", Error::VersionInvalid),
        broken("no minor", "HTTP/1", Error::VersionInvalid),
        broken("no major", "HTTP/.1", Error::VersionInvalid),
        broken("no digits", "HTTP/", Error::VersionInvalid),
        broken("a comma for a point", "HTTP/1,1", Error::VersionInvalid),
        broken("lower case", "http/1.1", Error::VersionInvalid),
        broken("another protocol", "ICE/1.0", Error::VersionInvalid),
        broken("another protocol as long", "HTCP/1.1", Error::VersionInvalid),
        broken("two spaces before", " HTTP/1.1", Error::VersionInvalid),
        broken("a space after", "HTTP/1.1 ", Error::VersionInvalid),
        broken("a tab after", "HTTP/1.1\t", Error::VersionInvalid),
        broken("one more word", "HTTP/1.1 x", Error::VersionInvalid),
        broken("a space inside", "HTTP/1. 1", Error::VersionInvalid),
        broken("nothing after the space", "", Error::VersionInvalid),
        broken("NUL after", "HTTP/1.1\0", Error::VersionInvalid),
        broken("a target with a space", "b HTTP/1.1", Error::VersionInvalid),
        Sample::refused_request("HTTP/0.9", "GET /\r\n", Error::VersionInvalid),
        Sample::refused_request("HTTP/0.9 with LF", "GET /\n", Error::VersionInvalid),
        Sample::refused_request("CR in the target", "GET /\rHTTP/1.1\r\n", Error::VersionInvalid),
    ]
}

fn broken_ends() -> Vec<Sample> {
    vec![
        Sample::refused_request("LF alone ends the line", "GET / HTTP/1.1\nHost: a\n\n", Error::BareLineFeed),
        Sample::refused_request(
            "CR alone ends the line",
            "GET / HTTP/1.1\rHost: a\r\r",
            Error::BareCarriageReturn,
        ),
        Sample::refused_request(
            "CR CR LF ends the line",
            "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n",
            Error::BareCarriageReturn,
        ),
        Sample::refused_request(
            "a bad version and LF alone",
            "GET / HTTP/1.2\nHost: a\n\n",
            Error::BareLineFeed,
        ),
        Sample::refused_request("the end after the method", "GET", Error::IncompleteMessage),
        Sample::refused_request("the end after the target", "GET /", Error::IncompleteMessage),
        Sample::refused_request("the end in the version", "GET / HTTP/1.", Error::IncompleteMessage),
        Sample::refused_request("the end in the line end", "GET / HTTP/1.1\r", Error::IncompleteMessage),
        Sample::refused_request("the end after the line", "GET / HTTP/1.1\r\n", Error::IncompleteMessage),
        Sample::requests(
            "the end in the second request",
            "GET /a HTTP/1.1\r\nHost: a\r\n\r\nG",
            &["GET /a HTTP/1.1", &refused(Error::IncompleteMessage)],
        ),
    ]
}

fn limits() -> Vec<Sample> {
    let target = |length: usize| {
        let target = format!("/{}", "a".repeat(length - 1));
        (format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"), format!("GET {target} HTTP/1.1"))
    };
    let method = |length: usize| {
        let method = "M".repeat(length);
        (format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"), format!("{method} / HTTP/1.1"))
    };
    let (at_limit, event) = target(32);
    let (long_method, method_event) = method(64);
    vec![
        Sample::requests("a target at its limit", at_limit.clone(), &[&event])
            .with(|limits| limits.request_target_bytes = 32),
        Sample::requests("a target at its limit after an empty line", format!("\r\n{at_limit}"), &[&event])
            .with(|limits| limits.request_target_bytes = 32),
        Sample::refused_request("a target above its limit", target(33).0, Error::RequestTargetTooLong)
            .with(|limits| limits.request_target_bytes = 32),
        Sample::refused_request(
            "a target above its limit that has not ended",
            "GET /aaaaaaaa",
            Error::RequestTargetTooLong,
        )
        .with(|limits| limits.request_target_bytes = 8),
        Sample::refused_request(
            "a target that is broken right after its limit",
            "GET /aaaaaaa\0",
            Error::RequestTargetInvalid,
        )
        .with(|limits| limits.request_target_bytes = 8),
        Sample::requests("the longest method", long_method, &[&method_event]),
        Sample::refused_request("a method too long", method(65).0, Error::MethodTooLong),
        Sample::refused_request("letters without end", "a".repeat(100), Error::MethodTooLong),
    ]
}
