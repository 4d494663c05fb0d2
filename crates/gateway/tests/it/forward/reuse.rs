//! Connections that end just as they are used again: no client notices where the request may be sent once more, and none
//! that may not is.

use thruway_gateway::UpstreamConfig;
use thruway_testkit::upstream;

use super::script::Accepted;
use super::{Client, Script};
use crate::gateway::Gateway;

const PROPER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn a_request_that_is_idempotent_is_sent_again_on_a_fresh_connection() {
    let listening = upstream::closes_idle_connection_just_as_it_is_reused().listen();
    // It says nothing against the server, and is no retry.
    let config = UpstreamConfig::new("a", [listening.address.into()]);
    let gateway = Gateway::start(UpstreamConfig { retries_max: 0, ..config });
    let mut client = Client::new(gateway.address);
    for asked in 1..=5 {
        let lines = if asked % 2 == 0 { "Content-Length: 0\r\n" } else { "" };
        let method = if asked % 2 == 0 { "PUT" } else { "GET" };
        let answer = client.ask(&format!("{method} / HTTP/1.1"), lines);
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok"));
    }
    // Each but the first came twice.
    assert_eq!((listening.requests(), listening.connections()), (9, 5));
}

#[test]
fn a_request_that_is_not_idempotent_is_not() {
    let listening = upstream::closes_idle_connection_just_as_it_is_reused().listen();
    let gateway = Gateway::to(listening.address);
    let mut client = Client::new(gateway.address);
    assert_eq!(client.ask("GET / HTTP/1.1", "").status, 200);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
    let answer = client.answer(false);
    assert_eq!(answer.status, 502);
    assert_eq!(answer.field("proxy-status"), Some("thruway; error=connection_terminated"));
    assert_eq!(listening.requests(), 2);
}

/// An upstream whose connection has been used once and waits.
fn after_an_answer() -> (Script, Gateway, Client, Accepted) {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut accepted = script.accept();
    accepted.head();
    accepted.send(PROPER);
    assert_eq!(client.answer(false).status, 200);
    (script, gateway, client, accepted)
}

#[test]
fn content_that_was_passed_on_is_not_sent_again() {
    let (script, _gateway, mut client, mut accepted) = after_an_answer();
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfour");
    accepted.until("four");
    drop(accepted);
    let answer = client.answer(false);
    assert_eq!(answer.status, 502);
    assert!(script.is_left_alone());
}

#[test]
fn a_request_whose_content_has_not_been_asked_for_is_sent_again() {
    let (script, _gateway, mut client, mut accepted) = after_an_answer();
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
