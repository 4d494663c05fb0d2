//! Failures of upstream servers, and the responses that clients get for them.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::listen;
use thruway_client::{Config, Timeouts};
use thruway_gateway::{Measured, RouteMeter, UpstreamConfig};
use thruway_server::IntoHandler;
use thruway_testkit::upstream::{self, AfterResponse, Upstream};

use super::{Client, Script};
use crate::backend::Backend;
use crate::gateway::{Gateway, STALL_TIMEOUT, only, until};

/// An upstream with short timeouts.
fn with_short_timeouts(address: SocketAddr) -> UpstreamConfig {
    let timeouts = Timeouts { head: STALL_TIMEOUT, content_idle: STALL_TIMEOUT, ..Timeouts::default() };
    UpstreamConfig {
        connect_timeout: STALL_TIMEOUT,
        exchange: Config { timeouts, ..Config::default() },
        ..only(address)
    }
}

/// Returns the status and `Proxy-Status` of the response to a request that is sent only once.
fn status_and_error(config: UpstreamConfig) -> (u16, String) {
    let gateway = Gateway::start(config);
    let mut client = Client::new(gateway.address);
    let answer = client.ask("POST / HTTP/1.1", "Content-Length: 2\r\n");
    (answer.status, answer.field("proxy-status").unwrap_or_default().to_owned())
}

fn failure(status: u16, error: &str) -> (u16, String) {
    (status, format!("thruway; error={error}"))
}

#[test]
fn failures_before_the_response_have_distinct_errors() {
    for (upstream, status, error) in [
        (upstream::accepts_without_response(), 504, "http_response_timeout"),
        (upstream::stalls_mid_head(), 504, "http_response_timeout"),
        (upstream::closes_without_response(), 502, "connection_terminated"),
        (upstream::closes_mid_head(), 502, "http_response_incomplete"),
        (upstream::sends_other_protocol(), 502, "http_protocol_error"),
        (upstream::sends_oversized_head(), 502, "http_protocol_error"),
        (upstream::sends_endless_interim_responses(), 502, "http_protocol_error"),
    ] {
        let name = format!("{upstream:?}");
        let listening = upstream.listen();
        let gateway = Gateway::start(with_short_timeouts(listening.address));
        let mut client = Client::new(gateway.address);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
        let answer = client.answer(false);
        let found = (answer.status, answer.field("proxy-status").unwrap_or_default().to_owned());
        assert_eq!(found, failure(status, error), "{name:.200}");
        assert_eq!(listening.requests(), 1, "a request that may have had an effect is not sent again");
    }
}

#[test]
fn refused_connection_gets_502() {
    let address = upstream::unused_address();
    assert_eq!(status_and_error(only(address)), failure(502, "connection_refused"));
}

#[test]
fn connect_timeout_gets_504() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The listener's queue is full, so the kernel does not answer further connections.
    listen(&listener, 0).unwrap();
    let mut waiting = Vec::new();
    let full = loop {
        match TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
            Ok(stream) => waiting.push(stream),
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::TimedOut);
    assert_eq!(status_and_error(with_short_timeouts(address)), failure(504, "connection_timeout"));
}

#[test]
fn truncated_response_body_never_looks_complete() {
    for upstream in [
        upstream::closes_mid_body(),
        upstream::closes_mid_chunk(),
        upstream::resets_mid_body(),
        upstream::stalls_mid_body(),
    ] {
        let name = format!("{upstream:?}");
        let listening = upstream.listen();
        let gateway = Gateway::start(with_short_timeouts(listening.address));
        let answer = Client::new(gateway.address).ask("GET / HTTP/1.1", "");
        // If the end of the connection arrives with the head, the gateway may also send 502.
        assert!(answer.status == 502 || (answer.status == 200 && answer.is_cut_off), "{name}: {answer:?}");
        assert_eq!(listening.requests(), 1, "a request with a response is not sent again");
    }
}

#[test]
fn unexpected_second_response_is_discarded() {
    for upstream in [upstream::sends_two_responses(), upstream::exceeds_content_length()] {
        let listening = upstream.listen();
        let gateway = Gateway::to(listening.address);
        let mut client = Client::new(gateway.address);
        for n in 1..=3 {
            let answer = client.ask("GET / HTTP/1.1", "");
            assert_eq!((answer.status, answer.text().len()), (200, 2));
            assert_eq!(listening.connections(), n, "a connection with unexpected bytes is not reused");
        }
    }
}

#[test]
fn bytes_on_an_idle_connection_are_not_used_as_response() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut first = script.accept();
    first.head();
    first.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none");
    assert_eq!(client.answer(false).text(), "one");
    first.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison");
    client.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut second = script.accept();
    assert!(second.head().starts_with("GET /2 "));
    second.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo");
    assert_eq!(client.answer(false).text(), "two");
    first.wait_for_end();
}

#[test]
fn malformed_or_ambiguous_response_gets_502() {
    for lines in [
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 2\r\nContent-Length: 3\r\n",
        "Content-Length: 2, 3\r\n",
        "Content-Length: +2\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Content-Length : 2\r\n",
        "X: a\r\n b\r\n",
        "X: a\rb\r\n",
        "X: a\0b\r\n",
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{lines}\r\nok");
        let upstream =
            Upstream { response: answer.into(), after_response: AfterResponse::Hang, ok_responses_first: 0 };
        let listening = upstream.listen();
        assert_eq!(
            status_and_error(with_short_timeouts(listening.address)),
            failure(502, "http_protocol_error"),
            "{lines:?}"
        );
    }
}

#[test]
fn client_disconnect_closes_the_upstream_connection() {
    for answer in ["", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour"] {
        let script = Script::start();
        let gateway = Gateway::to(script.address);
        let pending = gateway.begin("GET", "");
        let mut accepted = script.accept();
        accepted.head();
        accepted.send(answer);
        pending.reset();
        assert_eq!(accepted.wait_for_end(), b"");
    }
}

#[test]
fn client_that_truncates_its_body_leaves_upstream_request_incomplete() {
    for (framing, content) in
        [("Content-Length: 10", "four"), ("Transfer-Encoding: chunked", "4\r\nfour\r\n")]
    {
        let script = Script::start();
        let gateway = Gateway::to(script.address);
        let mut client = Client::new(gateway.address);
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{content}"));
        let mut accepted = script.accept();
        accepted.head();
        accepted.until("four");
        client.finish();
        let rest = accepted.wait_for_end();
        assert!(rest.is_empty() || rest == b"\r\n", "{}", rest.escape_ascii());
        assert_eq!(client.answer(false).status, 400);
    }
}

/// Regression test: such an upstream server closes with unread bytes, which resets the connection. The
/// refusal was cut off or replaced by 502, and the next pipelined request was never answered.
#[test]
fn error_response_without_length_survives_upstream_reset() {
    for n in 0..20 {
        let script = Script::start();
        let gateway = Gateway::to(script.address);
        let mut client = Client::new(gateway.address);
        client.send(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcdGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        );
        if n % 2 == 0 {
            client.finish();
        }
        let mut accepted = script.accept();
        accepted.head();
        assert_eq!(accepted.0.peek(&mut [0; 4]).unwrap(), 4);
        accepted.send("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nno");
        drop(accepted);
        let answer = client.answer(false);
        assert_eq!((answer.status, answer.text().as_str()), (400, "no"));
        let mut accepted = script.accept();
        assert!(accepted.head().starts_with("GET /2 "));
        accepted.send("HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(client.answer(false).status, 204);
    }
}

/// A successful response that may be incomplete must be cut off.
#[test]
fn success_response_without_length_stays_incomplete_after_reset() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcd");
    client.finish();
    let mut accepted = script.accept();
    accepted.head();
    assert_eq!(accepted.0.peek(&mut [0; 4]).unwrap(), 4);
    accepted.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nyes");
    drop(accepted);
    let mut received = Vec::new();
    client.read_rest(&mut received);
    let received = String::from_utf8(received).unwrap();
    assert!(received.starts_with("HTTP/1.1 502 ") || !received.ends_with("0\r\n\r\n"), "{received}");
}

#[test]
fn request_of_disconnected_client_is_counted_as_499() {
    let script = Script::start();
    let meter = Arc::new(RouteMeter::new(2));
    let gateway =
        Gateway::guarded(script.address, |handler| Measured::new(handler, meter.clone()).into_handler());
    let mut client = Client::new(gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut accepted = script.accept();
    accepted.head();
    drop(client);
    let statuses = || -> Vec<_> {
        let durations = meter.durations();
        durations.iter().map(|series| (series.attributes.unwrap().status.as_u16(), series.count())).collect()
    };
    until(|| statuses() == [(499, 1)]);
    let mut client = Client::new(gateway.address);
    client.send("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n");
    assert_eq!(client.answer(false).status, 405);
    assert_eq!(statuses(), [(405, 1), (499, 1)]);
}

/// The gateway's own refusal follows the response of the upstream server to the previous request, however the
/// bytes are split.
#[test]
fn gateway_refusal_after_a_forwarded_request_is_always_sent() {
    const GOOD: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    const BAD: &str = "POST / HTTP/1.1\r\nHost : a\r\nContent-Length: 4\r\n\r\nabcdGET / HTTP/1.1\r\n";
    let backend = Backend::named("good");
    let gateway = Gateway::in_order(backend.address);
    let bytes = [GOOD, BAD].concat();
    for (at, finishes) in (1..bytes.len()).flat_map(|at| [(at, false), (at, true)]) {
        let mut client = Client::new(gateway.address);
        client.send(&bytes[..at]);
        client.send(&bytes[at..]);
        if finishes {
            client.finish();
        }
        assert_eq!(client.answer(false).text(), "good", "{at}");
        assert_eq!(client.answer(false).status, 400, "{at}");
        let mut rest = Vec::new();
        client.read_rest(&mut rest);
        assert_eq!(rest, b"", "{at}");
    }
}
