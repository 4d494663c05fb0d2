//! Request bodies that the gateway reads before it selects a server.

use thruway_gateway::{ForwardConfig, UpstreamConfig};

use super::{Client, Recorder, Script};
use crate::gateway::{Gateway, only};

/// The server closes its connections, because the requests can be on different workers.
const PROPER: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

fn buffering(upstream: UpstreamConfig, bytes_max: usize) -> Gateway {
    let forward = ForwardConfig { request_buffer_bytes_max: Some(bytes_max), ..ForwardConfig::default() };
    Gateway::forwarding(upstream, forward)
}

#[test]
fn server_gets_the_request_after_the_whole_body_has_arrived() {
    for (framing, start, end) in [
        ("Content-Length: 8", "four", "four"),
        ("Transfer-Encoding: chunked", "4\r\nfour\r\n", "4\r\nfour\r\n0\r\n\r\n"),
    ] {
        let script = Script::start();
        let gateway = buffering(only(script.address), 8);
        let mut slow = Client::new(gateway.address);
        slow.send(format!("POST /slow HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n{framing}\r\n\r\n"));
        // The gateway asks for the body, so it handles the request.
        assert_eq!(slow.next_answer(false).unwrap().status, 100);
        slow.send(start);
        // Meanwhile, the server handles another request.
        let mut fast = Client::new(gateway.address);
        fast.send("GET /fast HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut accepted = script.accept();
        assert!(accepted.head().starts_with("GET /fast "));
        accepted.send(PROPER);
        assert_eq!(fast.answer(false).status, 200);
        assert!(script.has_no_connection());
        slow.send(end);
        let mut accepted = script.accept();
        assert!(accepted.head().starts_with("POST /slow "), "{framing}");
        accepted.until(if framing.ends_with('8') { "fourfour" } else { "0\r\n\r\n" });
        accepted.send(PROPER);
        assert_eq!(slow.answer(false).status, 200);
    }
}

#[test]
fn body_above_the_limit_gets_413_without_a_server() {
    for request in [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n123456789\r\n",
    ] {
        let script = Script::start();
        let gateway = buffering(only(script.address), 8);
        let mut client = Client::new(gateway.address);
        client.send(request);
        assert_eq!(client.answer(false).status, 413);
        assert!(script.has_no_connection());
    }
}

#[test]
fn incomplete_body_reaches_no_server() {
    let script = Script::start();
    let gateway = buffering(only(script.address), 100);
    let mut client = Client::new(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfour");
    client.finish();
    assert_eq!(client.answer(false).status, 400);
    assert!(script.has_no_connection());
}

#[test]
fn buffered_body_is_sent_again_regardless_of_replay_bytes_max() {
    let script = Script::start();
    let gateway = buffering(UpstreamConfig { replay_bytes_max: 0, ..only(script.address) }, 1 << 20);
    let mut client = Client::new(gateway.address);
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n");
    client.send("fourfour");
    let mut first = script.accept();
    first.until("fourfour");
    drop(first);
    let mut second = script.accept();
    second.until("fourfour");
    second.send(PROPER);
    assert_eq!(client.answer(false).status, 200);
}

#[test]
fn large_buffered_bodies_and_trailers_arrive_unchanged() {
    let recorder = Recorder::start();
    let gateway = buffering(only(recorder.address), 1 << 20);
    let mut client = Client::new(gateway.address);
    let body: Vec<u8> = (0_u32..).flat_map(u32::to_le_bytes).take(1 << 20).collect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n");
    client.send(&body);
    client.send("\r\n0\r\nX-End: yes\r\n\r\n");
    assert_eq!(client.answer(false).status, 200);
    let request = recorder.take_one();
    assert!(request.content == body);
    assert_eq!(request.trailers, [("X-End".to_owned(), "yes".to_owned())]);
    assert_eq!(recorder.violations(), [""; 0]);
}
