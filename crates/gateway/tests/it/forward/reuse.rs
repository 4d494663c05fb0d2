//! Connections that end just as they are reused. If a kept connection turns out to be closed, the gateway
//! sends the request again if that is allowed, so clients notice nothing.

use std::io::{ErrorKind, Read};

use thruway_gateway::UpstreamConfig;
use thruway_testkit::upstream;

use super::script::Accepted;
use super::{Client, Script};
use crate::gateway::{Gateway, only};

const PROPER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn idempotent_request_is_resent_if_reused_connection_is_closed() {
    let listening = upstream::closes_on_second_request().listen();
    // This counts neither as a failure of the server nor as a retry.
    let config = UpstreamConfig::new("a", [listening.address.into()]);
    let gateway = Gateway::start(UpstreamConfig { retries_max: 0, ..config });
    let mut client = Client::new(gateway.address);
    for n in 1..=5 {
        let lines = if n % 2 == 0 { "Content-Length: 0\r\n" } else { "" };
        let method = if n % 2 == 0 { "PUT" } else { "GET" };
        let answer = client.ask(&format!("{method} / HTTP/1.1"), lines);
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok"));
    }
    // Each request except the first arrived twice.
    assert_eq!((listening.requests(), listening.connections()), (9, 5));
}

#[test]
fn non_idempotent_request_is_not_resent() {
    let listening = upstream::closes_on_second_request().listen();
    let gateway = Gateway::to(listening.address);
    let mut client = Client::new(gateway.address);
    assert_eq!(client.ask("GET / HTTP/1.1", "").status, 200);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
    let answer = client.answer(false);
    assert_eq!(answer.status, 502);
    assert_eq!(answer.field("proxy-status"), Some("thruway; error=connection_terminated"));
    assert_eq!(listening.requests(), 2);
}

/// Returns an upstream server with an idle connection that has been used once.
fn with_reusable_connection() -> (Script, Gateway, Client, Accepted) {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    let accepted = open_reusable_connection(&script, &mut client);
    (script, gateway, client, accepted)
}

/// Does the same with this client.
fn open_reusable_connection(script: &Script, client: &mut Client) -> Accepted {
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut accepted = script.accept();
    accepted.head();
    accepted.send(PROPER);
    assert_eq!(client.answer(false).status, 200);
    accepted
}

/// Regression test: such a request failed although it may be sent again. Only content that had arrived
/// together with the head was kept.
#[test]
fn buffered_body_is_resent_on_new_connection() {
    let (script, _gateway, mut client, mut accepted) = with_reusable_connection();
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfour");
    accepted.until("four");
    client.send("+2");
    accepted.until("+2");
    drop(accepted);
    let mut again = script.accept();
    again.head();
    again.until("four+2");
    client.send("last");
    again.until("last");
    again.send(PROPER);
    assert_eq!(client.answer(false).status, 200);
    // The new connection is reusable.
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(again.head().starts_with("GET / "));
}

#[test]
fn chunked_body_and_trailers_are_resent() {
    let (script, _gateway, mut client, mut accepted) = with_reusable_connection();
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n");
    accepted.until("four\r\n");
    client.send("2\r\n+2\r\n0\r\nX-Sum: 6\r\n\r\n");
    accepted.until("X-Sum: 6\r\n\r\n");
    drop(accepted);
    let mut again = script.accept();
    again.head();
    assert_eq!(again.until("X-Sum: 6\r\n\r\n"), "6\r\nfour+2\r\n0\r\nX-Sum: 6\r\n\r\n");
    again.send(PROPER);
    assert_eq!(client.answer(false).status, 200);
}

#[test]
fn buffered_body_is_resent_to_another_server() {
    let silent = upstream::closes_without_response().listen();
    let script = Script::start();
    let mut config = UpstreamConfig::new("a", [silent.address.into(), script.address.into()]);
    config.servers[1].is_backup = true;
    let gateway = Gateway::start(config);
    let mut client = Client::new(gateway.address);
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nfour");
    let mut again = script.accept();
    again.head();
    client.send("+2");
    again.until("four+2");
    again.send(PROPER);
    assert_eq!(client.answer(false).status, 200);
}

#[test]
fn body_larger_than_replay_bytes_max_is_not_resent() {
    for (framing, replay_bytes_max) in
        [("Content-Length: 5", 5), ("Content-Length: 6", 5), ("Transfer-Encoding: chunked", 4)]
    {
        let script = Script::start();
        let gateway = Gateway::start(UpstreamConfig { replay_bytes_max, ..only(script.address) });
        let mut client = Client::new(gateway.address);
        let is_chunked = framing.ends_with("chunked");
        let pieces = if is_chunked { ["3\r\none\r\n", "2\r\n+2\r\n"] } else { ["one", "+2"] };
        let mut accepted = open_reusable_connection(&script, &mut client);
        client.send(format!("PUT / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{}", pieces[0]));
        accepted.until(pieces[0]);
        client.send(pieces[1]);
        accepted.until(pieces[1]);
        drop(accepted);
        if framing == "Content-Length: 5" {
            script.accept().until("one+2");
            continue;
        }
        assert_eq!(client.answer(false).status, 502, "{framing}");
        assert!(script.has_no_connection());
    }
}

#[test]
fn body_of_non_idempotent_request_is_not_resent() {
    let (script, _gateway, mut client, mut accepted) = with_reusable_connection();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfour");
    accepted.until("four");
    drop(accepted);
    assert_eq!(client.answer(false).status, 502);
    assert!(script.has_no_connection());
}

#[test]
fn large_body_within_replay_bytes_max_is_buffered_and_resent() {
    let script = Script::start();
    let replay_bytes_max = 1 << 20;
    let gateway = Gateway::start(UpstreamConfig { replay_bytes_max, ..only(script.address) });
    let mut client = Client::new(gateway.address);
    let mut accepted = open_reusable_connection(&script, &mut client);
    let content = "0123456789".repeat(replay_bytes_max / 10);
    client.send(format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", content.len()));
    accepted.head();
    let half = content.len() / 2;
    client.send(&content[..half]);
    accepted.0.read_exact(&mut vec![0; half]).unwrap();
    drop(accepted);
    let mut again = script.accept();
    again.head();
    client.send(&content[half..]);
    let mut read = vec![0; content.len()];
    again.0.read_exact(&mut read).unwrap();
    assert!(read == content.as_bytes());
    again.send(PROPER);
    assert_eq!(client.answer(false).status, 200);
}

#[test]
fn request_without_received_body_is_resent() {
    let (script, _gateway, mut client, mut accepted) = with_reusable_connection();
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n");
    accepted.head();
    drop(accepted);
    let mut again = script.accept();
    again.head();
    client.send("four");
    again.until("four");
    again.send(PROPER);
    assert_eq!(client.answer(false).status, 200);
}

/// Sends a response with the given head lines and body, and returns the error with which the connection of the server
/// ends. `None` means a FIN.
fn end_after(lines: &str, body: &str, request: &str) -> Option<ErrorKind> {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send(request);
    let mut accepted = script.accept();
    accepted.head();
    accepted.send(format!("HTTP/1.1 200 OK\r\n{lines}\r\n{body}"));
    assert_eq!(client.answer(false).status, 200);
    accepted.0.read_to_end(&mut Vec::new()).err().map(|error| error.kind())
}

/// Regression test: this machine collected connections in the state TIME-WAIT until it had no free port.
#[test]
fn gateway_resets_connections_that_the_server_does_not_keep() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(
        end_after("Connection: close\r\nContent-Length: 2\r\n", "ok", request),
        Some(ErrorKind::ConnectionReset)
    );
}

#[test]
fn gateway_closes_a_connection_normally_if_data_is_in_transit() {
    let close = "Connection: close\r\nContent-Length: 2\r\n";
    assert_eq!(end_after(close, "ok and more", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), None);
    let unfinished = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";
    assert_eq!(end_after(close, "ok", unfinished), None);
}
