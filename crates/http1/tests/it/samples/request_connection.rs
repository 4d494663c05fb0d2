//! Samples of requests that affect the connection: keep-alive, expectations, tunnels (RFC 9112 §9, RFC 9110
//! §7.8 and §10.1.1).

use thruway_http1::Error;
use thruway_testkit::transcript::Reader;

use super::{Sample, refused};

pub(crate) fn samples() -> Vec<Sample> {
    let mut samples = persistence();
    samples.extend(pipelines());
    samples.extend(expectations());
    samples.extend(upgrades());
    samples.extend(connects());
    samples.extend(declined());
    samples
}

fn get(version: &str, lines: &str) -> String {
    format!("GET / HTTP/{version}\r\nHost: a\r\n{lines}\r\n")
}

fn persistence() -> Vec<Sample> {
    let one = |name, version, lines: &str, is_last: bool| {
        let event = format!("GET / HTTP/{version}{}", if is_last { ", last" } else { "" });
        Sample::requests(name, get(version, lines), &[&event])
    };
    vec![
        one("1.1 keeps the connection open", "1.1", "", false),
        one("1.1 with close", "1.1", "Connection: close\r\n", true),
        one("1.1 with close in another case", "1.1", "cONNECTION: CLOSE\r\n", true),
        one("1.1 with close in a list", "1.1", "Connection: a, ,close ,b\r\n", true),
        one(
            "1.1 with close on a second line",
            "1.1",
            "Connection: keep-alive\r\nConnection: close\r\n",
            true,
        ),
        one("1.1 with close before keep-alive", "1.1", "Connection: close, keep-alive\r\n", true),
        one("1.1 with keep-alive", "1.1", "Connection: keep-alive\r\n", false),
        one("1.1 with a word that begins like close", "1.1", "Connection: closed\r\n", false),
        one("1.1 with close in a quoted string", "1.1", "Connection: \"a, close\"\r\n", false),
        one("1.1 with an empty option", "1.1", "Connection:\r\n", false),
        one("1.1 with close for a proxy of old", "1.1", "Proxy-Connection: close\r\n", false),
        one("1.0 ends", "1.0", "", true),
        one("1.0 with keep-alive", "1.0", "Connection: Keep-Alive\r\n", false),
        one("1.0 with keep-alive in a list", "1.0", "Connection: a,keep-alive\r\n", false),
        one("1.0 with keep-alive and close", "1.0", "Connection: keep-alive, close\r\n", true),
        one("1.0 with close", "1.0", "Connection: close\r\n", true),
        one("1.0 with another option", "1.0", "Connection: upgrade\r\n", true),
    ]
}

fn pipelines() -> Vec<Sample> {
    let event = "GET / HTTP/1.1";
    let last = "GET / HTTP/1.1, last";
    vec![
        Sample::requests("three requests", get("1.1", "").repeat(3), &[event; 3]),
        Sample::requests(
            "nothing is read after close",
            [get("1.1", "Connection: close\r\n"), get("1.1", "")].concat(),
            &[last, "27 unused"],
        ),
        Sample::requests(
            "nothing is read after content of the last request",
            [get("1.1", "Connection: close\r\nContent-Length: 1\r\n"), "a".into(), get("1.1", "")].concat(),
            &["GET / HTTP/1.1, 1 bytes, last", "content a", "end", "27 unused"],
        ),
        Sample::requests(
            "nothing is read after an error",
            [get("1.1", "A\r\n"), get("1.1", "")].concat(),
            &[&refused(Error::FieldNameInvalid)],
        ),
        Sample::requests(
            "1.0 kept alive, then 1.1",
            [get("1.0", "Connection: keep-alive\r\n"), get("1.1", "")].concat(),
            &["GET / HTTP/1.0", event],
        ),
        Sample::requests("requests up to their limit", get("1.1", "").repeat(3), &[event, last, "27 unused"])
            .with(|limits| limits.requests_per_connection = 2),
        Sample::requests("one request for each connection", get("1.1", "").repeat(2), &[last, "27 unused"])
            .with(|limits| limits.requests_per_connection = 1),
    ]
}

fn expectations() -> Vec<Sample> {
    let post = |version, lines: &str| format!("POST / HTTP/{version}\r\nHost: a\r\n{lines}\r\n");
    let length = "Content-Length: 1\r\n";
    let expect = "Expect: 100-continue\r\n";
    vec![
        Sample::requests(
            "100-continue",
            post("1.1", &[length, expect].concat()) + "a",
            &["POST / HTTP/1.1, 1 bytes, expects continue", "content a", "end"],
        ),
        Sample::requests(
            "100-continue in another case",
            post("1.1", &[length, "expect: 100-Continue\r\n"].concat()) + "a",
            &["POST / HTTP/1.1, 1 bytes, expects continue", "content a", "end"],
        ),
        Sample::requests(
            "100-continue with chunked",
            post("1.1", &["Transfer-Encoding: chunked\r\n", expect].concat()) + "0\r\n\r\n",
            &["POST / HTTP/1.1, chunked, expects continue", "end"],
        ),
        Sample::requests("100-continue without content", post("1.1", expect), &["POST / HTTP/1.1"]),
        Sample::requests(
            "100-continue with a length of 0",
            post("1.1", &["Content-Length: 0\r\n", expect].concat()),
            &["POST / HTTP/1.1"],
        ),
        Sample::requests(
            "100-continue in HTTP/1.0",
            post("1.0", &[length, expect].concat()) + "a",
            &["POST / HTTP/1.0, 1 bytes, last", "content a", "end"],
        ),
        Sample::refused_request(
            "another expectation",
            post("1.1", "Expect: 200-ok\r\n"),
            Error::ExpectationUnknown,
        ),
        Sample::refused_request(
            "100-continue with more",
            post("1.1", "Expect: 100-continue, x\r\n"),
            Error::ExpectationUnknown,
        ),
        Sample::refused_request(
            "100-continue with a parameter",
            post("1.1", "Expect: 100-continue;a=b\r\n"),
            Error::ExpectationUnknown,
        ),
        Sample::refused_request("no expectation", post("1.1", "Expect:\r\n"), Error::ExpectationUnknown),
    ]
}

const UPGRADE: &str = "Connection: upgrade\r\nUpgrade: websocket\r\n";

/// Returns a sample whose reader does not decide about a tunnel.
fn waits(name: &'static str, input: String, transcript: &[&str]) -> Sample {
    Sample::requests(name, input, transcript).read_by(Reader::Server { declines_tunnels: false })
}

fn upgrades() -> Vec<Sample> {
    let next = get("1.1", "");
    vec![
        waits(
            "an upgrade keeps what follows until the verdict",
            get("1.1", UPGRADE) + &next,
            &["GET / HTTP/1.1, wants a tunnel", "27 unused"],
        ),
        waits(
            "an upgrade with content waits after that",
            get("1.1", &[UPGRADE, "Content-Length: 1\r\n"].concat()) + "a" + &next,
            &["GET / HTTP/1.1, 1 bytes, wants a tunnel", "content a", "end", "27 unused"],
        ),
        waits("Upgrade without its connection option", get("1.1", "Upgrade: a\r\n"), &["GET / HTTP/1.1"]),
        waits(
            "the connection option without Upgrade",
            get("1.1", "Connection: upgrade\r\n"),
            &["GET / HTTP/1.1"],
        ),
        waits(
            "Upgrade in HTTP/1.0",
            get("1.0", "Connection: upgrade, keep-alive\r\nUpgrade: a\r\n"),
            &["GET / HTTP/1.0"],
        ),
    ]
}

fn connects() -> Vec<Sample> {
    let line = "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n";
    let event = "CONNECT a:443 HTTP/1.1, wants a tunnel";
    vec![
        waits(
            "CONNECT keeps what follows until the verdict",
            format!("{line}\r\n\x16\x03\x01"),
            &[event, "3 unused"],
        ),
        waits("CONNECT with a length of 0", format!("{line}Content-Length: 0\r\n\r\n"), &[event]),
        Sample::refused_request(
            "CONNECT with a length",
            format!("{line}Content-Length: 1\r\n\r\na"),
            Error::ConnectWithContent,
        ),
        Sample::refused_request(
            "CONNECT with chunks",
            format!("{line}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            Error::ConnectWithContent,
        ),
    ]
}

fn declined() -> Vec<Sample> {
    let next = get("1.1", "");
    let last = "GET / HTTP/1.1, wants a tunnel, last";
    vec![
        Sample::requests(
            "an upgrade that is declined",
            get("1.1", UPGRADE) + &next,
            &["GET / HTTP/1.1, wants a tunnel", "GET / HTTP/1.1"],
        ),
        Sample::requests(
            "an upgrade that is declined before its content",
            get("1.1", &[UPGRADE, "Content-Length: 1\r\n"].concat()) + "a" + &next,
            &["GET / HTTP/1.1, 1 bytes, wants a tunnel", "content a", "end", "GET / HTTP/1.1"],
        ),
        Sample::requests(
            "a declined upgrade of the last request is the end",
            get("1.1", "Connection: upgrade, close\r\nUpgrade: a\r\n") + &next,
            &[last, "27 unused"],
        ),
        Sample::requests(
            "a declined upgrade of the last allowed request is the end",
            get("1.1", UPGRADE) + &next,
            &[last, "27 unused"],
        )
        .with(|limits| limits.requests_per_connection = 1),
        Sample::requests(
            "a declined CONNECT in HTTP/1.0 is the end",
            format!("CONNECT a:443 HTTP/1.0\r\n\r\n{next}"),
            &["CONNECT a:443 HTTP/1.0, wants a tunnel, last", "27 unused"],
        ),
    ]
}
