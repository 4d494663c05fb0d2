//! Timeouts of requests, and the side that each of them blames.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use rustix::net::listen;
use thruway_client::{Config, Timeouts};
use thruway_gateway::{
    EjectionConfig, ForwardConfig, ForwardTimeouts, QueueConfig, ServerState, UpstreamConfig,
};
use thruway_net::Clock;
use thruway_testkit::upstream;

use super::{Client, Script};
use crate::backend::{Backend, Behavior};
use crate::gateway::{Gateway, STALL_TIMEOUT, TEST_TIMEOUT, only, until};

/// A timeout that is meant to expire. No part of the test has to finish in time.
const SHORT_TIMEOUT: Duration = Duration::from_millis(50);

/// An upstream that ejects servers after one failure.
fn ejects_after_one_failure(addresses: &[SocketAddr], timeouts: Timeouts) -> UpstreamConfig {
    let ejection = EjectionConfig { failures: 1, ..EjectionConfig::default() };
    let exchange = Config { timeouts, ..Config::default() };
    let addresses = addresses.iter().map(|address| (*address).into());
    UpstreamConfig { ejection, exchange, ..UpstreamConfig::new("a", addresses) }
}

fn short_content_timeout() -> Timeouts {
    Timeouts { content_idle: SHORT_TIMEOUT, ..Timeouts::default() }
}

fn total_timeout(total: Duration) -> Timeouts {
    Timeouts { total: Some(total), ..Timeouts::default() }
}

/// Number of ejected servers.
fn ejected(gateway: &Gateway) -> usize {
    let statuses = gateway.upstream.server_statuses();
    statuses.iter().filter(|server| server.state == ServerState::Ejected).count()
}

/// Sends a request, which the upstream server answers with the head of a stream and one piece of it.
fn begin(script: &Script, client: &mut Client, media_type: &str) -> super::script::Accepted {
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut accepted = script.accept();
    accepted.head();
    accepted.send(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n"
    ));
    accepted
}

/// Regression test: each event stream was cut off after a minute of silence, and its server was ejected in
/// the end.
#[test]
fn event_stream_is_exempt_from_body_idle_timeout() {
    let script = Script::start();
    let gateway = Gateway::start(ejects_after_one_failure(
        &[script.address, upstream::unused_address()],
        short_content_timeout(),
    ));
    let [mut events, mut text] = [(); 2].map(|()| Client::new(gateway.address));
    let mut events_upstream = begin(&script, &mut events, "text/event-stream; charset=utf-8");
    let _text_upstream = begin(&script, &mut text, "text/plain");
    assert!(text.answer(false).is_cut_off);
    events_upstream.send("4\r\ntwo\n\r\n0\r\n\r\n");
    let answer = events.answer(false);
    assert_eq!((answer.text().as_str(), answer.is_cut_off), ("one\ntwo\n", false));
}

#[test]
fn stalled_body_ejects_the_server_but_silent_event_stream_does_not() {
    let script = Script::start();
    for (media_type, expected) in [("text/event-stream", 0), ("text/plain", 1)] {
        // The other server is a backup and gets no requests.
        let mut config =
            ejects_after_one_failure(&[script.address, upstream::unused_address()], short_content_timeout());
        config.event_stream_idle = SHORT_TIMEOUT;
        config.servers[1].is_backup = true;
        let gateway = Gateway::start(config);
        let mut client = Client::new(gateway.address);
        let _open = begin(&script, &mut client, media_type);
        assert!(client.answer(false).is_cut_off);
        assert_eq!(ejected(&gateway), expected, "{media_type}");
    }
}

/// A reused connection has the timeouts of its current request.
#[test]
fn request_after_event_stream_has_the_normal_idle_timeout() {
    let script = Script::start();
    let config = UpstreamConfig {
        exchange: Config { timeouts: short_content_timeout(), ..Config::default() },
        ..only(script.address)
    };
    let gateway = Gateway::start(config);
    let mut client = Client::new(gateway.address);
    let mut accepted = begin(&script, &mut client, "text/event-stream");
    accepted.send("0\r\n\r\n");
    assert!(!client.answer(false).is_cut_off);
    client.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(accepted.head().starts_with("GET /2 "));
    accepted.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\none\n");
    assert!(client.answer(false).is_cut_off);
}

#[test]
fn route_timeout_overrides_upstream_timeout() {
    let backend = Backend::start(Behavior::NeverResponds);
    for timeouts in [
        ForwardTimeouts { head: Some(STALL_TIMEOUT), ..ForwardTimeouts::default() },
        ForwardTimeouts { total: Some(STALL_TIMEOUT), ..ForwardTimeouts::default() },
    ] {
        let forward = ForwardConfig { timeouts, ..ForwardConfig::default() };
        let gateway = Gateway::forwarding(only(backend.address), forward);
        let got = gateway.ask("POST", "Content-Length: 0\r\n");
        let result = (got.status, got.field("proxy-status"));
        assert_eq!(result, (504, Some("thruway; error=http_response_timeout")), "{timeouts:?}");
    }
}

#[test]
fn total_timeout_counts_against_a_silent_server() {
    let backend = Backend::start(Behavior::NeverResponds);
    let mut config = ejects_after_one_failure(
        &[backend.address, upstream::unused_address()],
        total_timeout(STALL_TIMEOUT),
    );
    config.servers[1].is_backup = true;
    let gateway = Gateway::start(config);
    assert_eq!((gateway.get().status, ejected(&gateway)), (504, 1));
}

#[test]
fn total_timeout_during_upload_does_not_count_against_the_server() {
    let script = Script::start();
    let mut config =
        ejects_after_one_failure(&[script.address, upstream::unused_address()], total_timeout(STALL_TIMEOUT));
    config.servers[1].is_backup = true;
    let gateway = Gateway::start(config);
    let mut client = Client::new(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfour");
    let mut accepted = script.accept();
    accepted.head();
    assert_eq!((client.answer(false).status, ejected(&gateway)), (504, 0));
}

#[test]
fn total_timeout_includes_waiting_in_the_queue() {
    let backend = Backend::start(Behavior::Holds);
    let queue = QueueConfig { timeout: Duration::from_hours(1), ..QueueConfig::default() };
    let mut config = UpstreamConfig { queue, ..only(backend.address) };
    config.servers[0].requests_max = 1;
    let gateway = Gateway::start(config);
    let timeouts = ForwardTimeouts { total: Some(SHORT_TIMEOUT), ..ForwardTimeouts::default() };
    let forward = ForwardConfig { timeouts, ..ForwardConfig::default() };
    // The first request has no timeout and occupies the server. With the timeout of the second request, it
    // would end just in time for the second request to start.
    let limited = Gateway::sharing(gateway.upstream.clone(), forward);
    let first = gateway.begin("GET", "");
    until(|| backend.requests() == 1);
    let second = limited.get();
    assert_eq!((second.status, gateway.upstream.waiting()), (504, 0));
    assert_eq!(backend.requests(), 1);
    backend.set_behavior(Behavior::Closes);
    drop(first);
}

/// Regression test: when requests waited long in the queue, each server had only a moment left for each of
/// them. All servers were ejected.
#[test]
fn timeout_after_long_queue_wait_does_not_count_against_server() {
    let backend = Backend::start(Behavior::NeverResponds);
    let mut config =
        ejects_after_one_failure(&[backend.address, upstream::unused_address()], Timeouts::default());
    config.queue.timeout = Duration::from_hours(1);
    config.servers[0].requests_max = 1;
    config.servers[1].is_backup = true;
    let gateway = Gateway::start(config);
    let total = STALL_TIMEOUT * 3;
    let timeouts = ForwardTimeouts { total: Some(total), ..ForwardTimeouts::default() };
    let forward = ForwardConfig { timeouts, ..ForwardConfig::default() };
    let limited = Gateway::sharing(gateway.upstream.clone(), forward);
    let first = gateway.begin("GET", "");
    until(|| backend.requests() == 1);
    let second = limited.begin("GET", "");
    until(|| gateway.upstream.waiting() == 1);
    // The first client disconnects after the second request has used more than half of its time.
    let began = Clock::system().now_exact();
    until(|| Clock::system().now_exact() >= began + total * 6 / 10);
    first.reset();
    assert_eq!(second.end().status, 504);
    assert_eq!((backend.requests(), ejected(&gateway)), (2, 0));
}

#[test]
fn total_timeout_includes_connecting() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The listener's queue is full, so the kernel does not answer further connections.
    listen(&listener, 0).unwrap();
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(100));
    let _waiting: Vec<_> = std::iter::from_fn(|| connect().ok()).collect();
    let config = UpstreamConfig {
        connect_timeout: Duration::from_hours(1),
        exchange: Config { timeouts: total_timeout(SHORT_TIMEOUT), ..Config::default() },
        ..only(address)
    };
    assert_eq!(Gateway::start(config).get().status, 504);
}

#[test]
fn total_timeout_limits_retries_on_other_servers() {
    let silent = [(); 3].map(|()| Backend::start(Behavior::NeverResponds));
    let timeouts = Timeouts { head: STALL_TIMEOUT, ..total_timeout(STALL_TIMEOUT * 3 / 2) };
    let addresses = silent.each_ref().map(|backend| backend.address);
    let gateway = Gateway::start(ejects_after_one_failure(&addresses, timeouts));
    assert_eq!(gateway.get().status, 504);
    let requests: usize = silent.iter().map(Backend::requests).sum();
    assert!((1..3).contains(&requests), "{requests}");
}

#[test]
fn total_timeout_ends_an_endless_response_body() {
    let script = Script::start();
    let mut config =
        ejects_after_one_failure(&[script.address, upstream::unused_address()], total_timeout(STALL_TIMEOUT));
    config.servers[1].is_backup = true;
    let gateway = Gateway::start(config);
    let mut client = Client::new(gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut accepted = script.accept();
    accepted.head();
    accepted.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    let endless = thread::spawn(move || {
        let chunk = [b"10000\r\n".as_slice(), &b"a".repeat(0x10000), b"\r\n"].concat();
        let end = Clock::system().now_exact() + TEST_TIMEOUT;
        while Clock::system().now_exact() < end {
            if accepted.0.write_all(&chunk).is_err() {
                return true;
            }
        }
        false
    });
    let mut socket = client.socket();
    let mut piece = vec![0; 1 << 16];
    while socket.read(&mut piece).is_ok_and(|read| read > 0) {}
    assert!(endless.join().unwrap(), "the gateway must stop reading");
    assert_eq!(ejected(&gateway), 0, "the client may have caused the timeout");
}
