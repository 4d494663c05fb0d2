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
use crate::backend::{Backend, Behaviour};
use crate::gateway::{AMPLE, Gateway, PATIENCE, only, until};

/// A timeout that is meant to expire. No part of the test has to finish in time.
const SOON: Duration = Duration::from_millis(50);

/// An upstream that ejects servers after one failure.
fn touchy(addresses: &[SocketAddr], timeouts: Timeouts) -> UpstreamConfig {
    let ejection = EjectionConfig { failures: 1, ..EjectionConfig::default() };
    let exchange = Config { timeouts, ..Config::default() };
    let addresses = addresses.iter().map(|address| (*address).into());
    UpstreamConfig { ejection, exchange, ..UpstreamConfig::new("a", addresses) }
}

fn soon_in_content() -> Timeouts {
    Timeouts { content_idle: SOON, ..Timeouts::default() }
}

fn in_all(total: Duration) -> Timeouts {
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
fn a_stream_of_events_may_be_silent_where_other_content_may_not() {
    let script = Script::start();
    let gateway = Gateway::start(touchy(&[script.address, upstream::refuses()], soon_in_content()));
    let [mut events, mut text] = [(); 2].map(|()| Client::new(gateway.address));
    let mut of_events = begin(&script, &mut events, "text/event-stream; charset=utf-8");
    let _of_text = begin(&script, &mut text, "text/plain");
    assert!(text.answer(false).is_cut_off);
    of_events.send("4\r\ntwo\n\r\n0\r\n\r\n");
    let answer = events.answer(false);
    assert_eq!((answer.text().as_str(), answer.is_cut_off), ("one\ntwo\n", false));
}

#[test]
fn a_silent_stream_of_events_is_not_held_against_its_server_but_stalled_content_is() {
    let script = Script::start();
    for (media_type, blamed) in [("text/event-stream", 0), ("text/plain", 1)] {
        // The other server is a backup and gets no requests.
        let mut config = touchy(&[script.address, upstream::refuses()], soon_in_content());
        config.event_stream_idle = SOON;
        config.servers[1].is_backup = true;
        let gateway = Gateway::start(config);
        let mut client = Client::new(gateway.address);
        let _open = begin(&script, &mut client, media_type);
        assert!(client.answer(false).is_cut_off);
        assert_eq!(ejected(&gateway), blamed, "{media_type}");
    }
}

/// A reused connection has the timeouts of its current request.
#[test]
fn what_follows_a_stream_of_events_is_not_waited_for_as_long() {
    let script = Script::start();
    let config = UpstreamConfig {
        exchange: Config { timeouts: soon_in_content(), ..Config::default() },
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
fn a_route_may_wait_otherwise_than_its_upstream_says() {
    let backend = Backend::start(Behaviour::SaysNothing);
    for timeouts in [
        ForwardTimeouts { head: Some(AMPLE), ..ForwardTimeouts::default() },
        ForwardTimeouts { total: Some(AMPLE), ..ForwardTimeouts::default() },
    ] {
        let forward = ForwardConfig { timeouts, ..ForwardConfig::default() };
        let gateway = Gateway::forwarding(only(backend.address), forward);
        let got = gateway.ask("POST", "Content-Length: 0\r\n");
        let told = (got.status, got.field("proxy-status"));
        assert_eq!(told, (504, Some("thruway; error=http_response_timeout")), "{timeouts:?}");
    }
}

#[test]
fn a_server_that_leaves_a_request_unanswered_until_its_time_is_over_has_failed() {
    let backend = Backend::start(Behaviour::SaysNothing);
    let mut config = touchy(&[backend.address, upstream::refuses()], in_all(AMPLE));
    config.servers[1].is_backup = true;
    let gateway = Gateway::start(config);
    assert_eq!((gateway.get().status, ejected(&gateway)), (504, 1));
}

#[test]
fn a_server_that_is_still_told_the_request_when_its_time_is_over_has_not() {
    let script = Script::start();
    let mut config = touchy(&[script.address, upstream::refuses()], in_all(AMPLE));
    config.servers[1].is_backup = true;
    let gateway = Gateway::start(config);
    let mut client = Client::new(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfour");
    let mut accepted = script.accept();
    accepted.head();
    assert_eq!((client.answer(false).status, ejected(&gateway)), (504, 0));
}

#[test]
fn the_time_of_a_request_includes_waiting_for_a_server_that_has_room() {
    let backend = Backend::start(Behaviour::Holds);
    let queue = QueueConfig { timeout: Duration::from_hours(1), ..QueueConfig::default() };
    let mut config = UpstreamConfig { queue, ..only(backend.address) };
    config.servers[0].requests_max = 1;
    let gateway = Gateway::start(config);
    let timeouts = ForwardTimeouts { total: Some(SOON), ..ForwardTimeouts::default() };
    let forward = ForwardConfig { timeouts, ..ForwardConfig::default() };
    // The first request has no timeout and occupies the server. With the timeout of the second, it would
    // leave just in time for the second to start.
    let impatient = Gateway::sharing(gateway.upstream.clone(), forward);
    let first = gateway.begin("GET", "");
    until(|| backend.requests() == 1);
    let second = impatient.get();
    assert_eq!((second.status, gateway.upstream.waiting()), (504, 0));
    assert_eq!(backend.requests(), 1);
    backend.now(Behaviour::Closes);
    drop(first);
}

/// Regression test: when requests waited long in the queue, each server had only a moment left for each of
/// them. All servers were ejected.
#[test]
fn a_server_that_had_a_request_only_at_the_end_of_its_time_has_not_failed() {
    let backend = Backend::start(Behaviour::SaysNothing);
    let mut config = touchy(&[backend.address, upstream::refuses()], Timeouts::default());
    config.queue.timeout = Duration::from_hours(1);
    config.servers[0].requests_max = 1;
    config.servers[1].is_backup = true;
    let gateway = Gateway::start(config);
    let total = AMPLE * 3;
    let timeouts = ForwardTimeouts { total: Some(total), ..ForwardTimeouts::default() };
    let forward = ForwardConfig { timeouts, ..ForwardConfig::default() };
    let impatient = Gateway::sharing(gateway.upstream.clone(), forward);
    let first = gateway.begin("GET", "");
    until(|| backend.requests() == 1);
    let second = impatient.begin("GET", "");
    until(|| gateway.upstream.waiting() == 1);
    // The first request leaves after the second has waited for more than half of its time.
    let began = Clock::system().now_exact();
    until(|| Clock::system().now_exact() >= began + total * 6 / 10);
    first.break_off();
    assert_eq!(second.end().status, 504);
    assert_eq!((backend.requests(), ejected(&gateway)), (2, 0));
}

#[test]
fn the_time_of_a_request_includes_connecting() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The listener's queue is full, so the kernel does not answer further connections.
    listen(&listener, 0).unwrap();
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(100));
    let _waiting: Vec<_> = std::iter::from_fn(|| connect().ok()).collect();
    let config = UpstreamConfig {
        connect_timeout: Duration::from_hours(1),
        exchange: Config { timeouts: in_all(SOON), ..Config::default() },
        ..only(address)
    };
    assert_eq!(Gateway::start(config).get().status, 504);
}

#[test]
fn other_servers_are_asked_only_as_long_as_a_request_has_time() {
    let silent = [(); 3].map(|()| Backend::start(Behaviour::SaysNothing));
    let timeouts = Timeouts { head: AMPLE, ..in_all(AMPLE * 3 / 2) };
    let addresses = silent.each_ref().map(|backend| backend.address);
    let gateway = Gateway::start(touchy(&addresses, timeouts));
    assert_eq!(gateway.get().status, 504);
    let asked: usize = silent.iter().map(Backend::requests).sum();
    assert!((1..3).contains(&asked), "{asked}");
}

#[test]
fn content_that_flows_without_end_ends_with_the_time_of_its_request() {
    let script = Script::start();
    let mut config = touchy(&[script.address, upstream::refuses()], in_all(AMPLE));
    config.servers[1].is_backup = true;
    let gateway = Gateway::start(config);
    let mut client = Client::new(gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut accepted = script.accept();
    accepted.head();
    accepted.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    let endless = thread::spawn(move || {
        let chunk = [b"10000\r\n".as_slice(), &b"a".repeat(0x10000), b"\r\n"].concat();
        let end = Clock::system().now_exact() + PATIENCE;
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
    assert!(endless.join().unwrap(), "the gateway goes on reading");
    assert_eq!(ejected(&gateway), 0, "it may have been the client");
}
