//! Tests of upgrades to other protocols.

use std::net::Shutdown;

use thruway_gateway::UpstreamConfig;

use super::{Client, Script};
use crate::gateway::{Gateway, STALL_TIMEOUT, only};

const UPGRADE_REQUEST: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                               Sec-WebSocket-Key: k\r\n\r\n";
const SWITCHING_RESPONSE: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                                  Upgrade: websocket\r\nSec-WebSocket-Accept: s\r\n\r\n";

#[test]
fn tunnel_forwards_early_bytes_and_either_side_can_finish_first() {
    for ends_first in ["client", "upstream"] {
        let script = Script::start();
        let gateway = Gateway::to(script.address);
        let mut client = Client::new(gateway.address);
        client.send(format!("{UPGRADE_REQUEST}from the client"));
        let mut accepted = script.accept();
        let head = accepted.head();
        assert!(head.contains("\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"), "{head}");
        assert!(head.contains("\r\nSec-WebSocket-Key: k\r\n"));
        accepted.send(format!("{SWITCHING_RESPONSE}from the upstream"));
        let answer = client.answer(false);
        assert_eq!((answer.status, answer.field("upgrade")), (101, Some("websocket")));
        assert_eq!(answer.field("connection").map(str::to_lowercase).as_deref(), Some("upgrade"));
        assert_eq!(answer.field("sec-websocket-accept"), Some("s"));
        assert_eq!(client.take(17), "from the upstream");
        accepted.until("from the client");
        if ends_first == "client" {
            client.finish();
            assert_eq!(accepted.wait_for_end(), b"");
            accepted.send("the last");
            accepted.0.shutdown(Shutdown::Write).unwrap();
            assert_eq!(client.take(8), "the last");
        } else {
            accepted.0.shutdown(Shutdown::Write).unwrap();
            let mut rest = Vec::new();
            client.read_rest(&mut rest);
            assert_eq!(rest, b"");
            client.send("the last");
            client.finish();
            assert_eq!(accepted.wait_for_end(), b"the last");
        }
    }
}

#[test]
fn tunnel_forwards_more_bytes_than_its_buffers_hold() {
    const BYTES: usize = 3 << 20;
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send(UPGRADE_REQUEST);
    let mut accepted = script.accept();
    accepted.head();
    accepted.send(SWITCHING_RESPONSE);
    assert_eq!(client.answer(false).status, 101);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            accepted.send(vec![b'u'; BYTES]);
            accepted.0.shutdown(Shutdown::Write).unwrap();
            assert_eq!(accepted.wait_for_end().len(), BYTES);
        });
        let mut writer = client.socket().try_clone().unwrap();
        scope.spawn(move || {
            std::io::Write::write_all(&mut writer, &vec![b'c'; BYTES]).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut rest = Vec::new();
        client.read_rest(&mut rest);
        assert_eq!(rest.len(), BYTES);
    });
}

#[test]
fn unrequested_upgrade_gets_502() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n");
    let mut accepted = script.accept();
    assert!(!accepted.head().contains("Upgrade"), "without `Connection: upgrade`, `Upgrade` has no effect");
    accepted.send(SWITCHING_RESPONSE);
    assert_eq!(client.answer(false).status, 502);
}

#[test]
fn connection_is_not_reused_after_a_declined_upgrade() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send(format!("{UPGRADE_REQUEST}GET /2 HTTP/1.1\r\nHost: a\r\n\r\n"));
    let mut accepted = script.accept();
    accepted.head();
    accepted.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno");
    assert_eq!(client.answer(false).status, 400);
    // After declining an upgrade, Node answers no further requests on the connection.
    assert_eq!(accepted.wait_for_end(), b"");
    let mut accepted = script.accept();
    assert!(accepted.head().starts_with("GET /2 "));
    accepted.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.answer(false).status, 204);
}

/// uvicorn with httptools considers such a request complete after its head, and reads its content as the next
/// request.
#[test]
fn upgrade_of_request_with_body_is_not_forwarded() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let contents = ["Content-Length: 2\r\n\r\nab", "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"];
    let mut client = Client::new(gateway.address);
    let mut accepted = None;
    for content in contents {
        let end = content.split_once("\r\n\r\n").unwrap().1;
        for (first, second) in [(content.len(), 0), (content.len() - end.len(), end.len())] {
            client.send("POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n");
            client.send(&content[..first]);
            // The gateway removes the upgrade, so all requests can use one connection.
            let accepted = accepted.get_or_insert_with(|| script.accept());
            let head = if second == 0 { accepted.until(end) } else { accepted.head() };
            client.send(&content[first..]);
            if second > 0 {
                accepted.until(end);
            }
            assert!(!head.to_ascii_lowercase().contains("upgrade"), "{head}");
            accepted.send("HTTP/1.1 204 No Content\r\n\r\n");
            assert_eq!(client.answer(false).status, 204);
        }
    }
    client
        .send(format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: a\r\n{}", contents[0]));
    let mut accepted = accepted.unwrap();
    accepted.until("ab");
    accepted.send(SWITCHING_RESPONSE);
    assert_eq!(client.answer(false).status, 502);
}

#[test]
fn client_reset_closes_the_upstream_side_of_the_tunnel() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut pending = gateway.begin_with("GET", "Connection: upgrade\r\nUpgrade: websocket\r\n");
    let mut accepted = script.accept();
    accepted.head();
    accepted.send(SWITCHING_RESPONSE);
    assert_eq!(pending.first(), "HTTP/1.1 101");
    pending.reset();
    assert_eq!(accepted.wait_for_end(), b"");
}

#[test]
fn idle_tunnel_is_closed() {
    let script = Script::start();
    let config = UpstreamConfig { tunnel_idle: STALL_TIMEOUT, ..only(script.address) };
    let gateway = Gateway::start(config);
    let mut client = Client::new(gateway.address);
    client.send(UPGRADE_REQUEST);
    let mut accepted = script.accept();
    accepted.head();
    accepted.send(SWITCHING_RESPONSE);
    assert_eq!(client.answer(false).status, 101);
    client.send("spoken");
    accepted.until("spoken");
    assert_eq!(accepted.wait_for_end(), b"");
}

/// In a tunnel of HTTP/2, requests would bypass routes and policies.
#[test]
fn upgrade_to_another_http_version_is_not_forwarded() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    let mut accepted = None;
    for protocols in ["h2c", "H2C", "websocket, h2c", "h2c\r\nUpgrade: websocket", "HTTP/3.0"] {
        client.send("GET / HTTP/1.1\r\nHost: a\r\nHTTP2-Settings: AAMAAABk\r\nConnection: Upgrade\r\n");
        client.send(format!("Upgrade: {protocols}\r\n\r\n"));
        let accepted = accepted.get_or_insert_with(|| script.accept());
        let head = accepted.head().to_ascii_lowercase();
        assert!(!head.contains("upgrade") && !head.contains("http2-settings"), "{head}");
        accepted.send("HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(client.answer(false).status, 204);
    }
}

/// Regression test: the gateway removed `Upgrade` from the response with the other connection fields. The
/// client did not learn which protocol the server requires.
#[test]
fn upgrade_header_of_426_response_reaches_the_client() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    for (field, expected) in [("Upgrade: websocket\r\n", Some("websocket")), ("", None)] {
        let mut client = Client::new(gateway.address);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut accepted = script.accept();
        accepted.head();
        accepted.send(format!(
            "HTTP/1.1 426 Upgrade Required\r\nConnection: upgrade, close\r\n{field}Content-Length: 0\r\n\r\n"
        ));
        let answer = client.answer(false);
        assert_eq!((answer.status, answer.field("upgrade")), (426, expected));
        assert_eq!(answer.field("connection"), expected.map(|_| "upgrade"));
    }
}

/// Regression test: requests after a declined upgrade were discarded if the client had shut down its sending
/// side while the response was streamed.
#[test]
fn pipelined_request_after_declined_upgrade_is_answered() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send(format!("{UPGRADE_REQUEST}GET /2 HTTP/1.1\r\nHost: a\r\n\r\n"));
    client.finish();
    let mut accepted = script.accept();
    accepted.head();
    accepted.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push_str(&client.take(1));
    }
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    accepted.send("no");
    assert_eq!(client.take(2), "no");
    let mut accepted = script.accept();
    assert!(accepted.head().starts_with("GET /2 "));
    accepted.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.answer(false).status, 204);
}
