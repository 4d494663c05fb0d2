//! Tests of response bodies that are so large that they bypass the gateway's own memory.

use std::io::Write;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use thruway_net::Clock;
use thruway_server::{Config, Record, Recorder, TakeRecord, Timeouts};

use super::{Client, Script};
use crate::gateway::{Gateway, STALL_TIMEOUT, TEST_TIMEOUT, only};

/// Lengths around the limits of one write, of splicing, and of the capacity of a pipe.
const SIZES: [usize; 10] = [
    (64 << 10) - 1,
    64 << 10,
    (64 << 10) + 1,
    128 << 10,
    (128 << 10) + 1,
    200_000,
    256 << 10,
    320 << 10,
    1 << 20,
    5_000_001,
];

/// Bytes that reveal any reordering or loss.
fn numbered(length: usize) -> Vec<u8> {
    (0_u32..).flat_map(u32::to_le_bytes).take(length).collect()
}

fn head(length: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")
}

/// Sends the recorded body length of each response, and `true` if it was complete.
struct RecordSender(Sender<(u64, bool)>);

impl Recorder for RecordSender {
    fn start(&self) -> TakeRecord {
        let sender = self.0.clone();
        // The test may have ended.
        Box::new(move |record: &Record<'_>| {
            let _ = sender.send((record.content_bytes, record.is_complete));
        })
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn large_bodies_arrive_unchanged_over_reused_connections() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send(get("/"));
    let mut accepted = script.accept();
    thread::scope(|scope| {
        scope.spawn(|| {
            for length in SIZES {
                accepted.head();
                accepted.send([head(length).as_bytes(), &numbered(length)].concat());
                assert!(accepted.head().starts_with("HEAD "));
                accepted.send(head(length));
            }
        });
        for (i, length) in SIZES.into_iter().enumerate() {
            if i > 0 {
                client.send(get("/"));
            }
            let answer = client.answer(false);
            assert!(answer.content == numbered(length) && !answer.is_cut_off, "{length}");
            let answer = client.ask("HEAD / HTTP/1.1", "");
            assert_eq!(answer.field("content-length"), Some(length.to_string().as_str()));
        }
    });
    assert!(script.has_no_connection());
}

#[test]
fn large_body_in_small_parts_arrives_unchanged() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send(get("/"));
    let mut accepted = script.accept();
    accepted.head();
    let content = numbered(1 << 20);
    thread::scope(|scope| {
        scope.spawn(|| {
            accepted.send(head(content.len()));
            for part in content.chunks(999) {
                accepted.send(part);
            }
        });
        assert!(client.answer(false).content == content);
    });
}

#[test]
fn pipelined_response_waits_for_large_body() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send(get("/large") + &get("/small"));
    let (mut first, mut second) = (script.accept(), script.accept());
    if first.head().starts_with("GET /small") {
        std::mem::swap(&mut first, &mut second);
        first.head();
    } else {
        second.head();
    }
    second.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsmall");
    let content = numbered(3_000_000);
    thread::scope(|scope| {
        scope.spawn(|| first.send([head(content.len()).as_bytes(), &content].concat()));
        assert!(client.answer(false).content == content);
        assert_eq!(client.answer(false).text(), "small");
    });
}

#[test]
fn bytes_after_large_body_are_discarded_with_their_connection() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send(get("/"));
    let mut accepted = script.accept();
    accepted.head();
    let content = numbered(1 << 20);
    thread::scope(|scope| {
        let accepted = &mut accepted;
        let bytes = [head(content.len()).as_bytes(), &content, head(6).as_bytes(), b"poison"].concat();
        scope.spawn(move || accepted.send(bytes));
        assert!(client.answer(false).content == content);
    });
    client.send(get("/next"));
    let mut next = script.accept();
    next.head();
    next.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(client.answer(false).text(), "ok");
    accepted.wait_for_end();
}

#[test]
fn upstream_closing_mid_large_body_leaves_response_incomplete() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let content = numbered(1 << 20);
    for sent in [100_000, 300_000, content.len() - 1] {
        let mut client = Client::new(gateway.address);
        client.send(get("/"));
        let mut accepted = script.accept();
        accepted.head();
        thread::scope(|scope| {
            let bytes = [head(content.len()).as_bytes(), &content[..sent]].concat();
            scope.spawn(move || accepted.send(bytes));
            let answer = client.answer(false);
            assert!(answer.is_cut_off && answer.content == content[..sent], "{sent}");
            assert!(
                client.next_answer(false).is_none(),
                "the connection must end after an incomplete response"
            );
        });
    }
}

/// While the gateway waits for a large body, it raises the low-water mark of the connection. If the server
/// pauses, the client must still get all bytes that the server has sent.
#[test]
fn client_gets_each_part_of_large_body_during_a_pause() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send(get("/"));
    let mut accepted = script.accept();
    let content = numbered(1 << 20);
    let pauses: [&[usize]; 4] =
        [&[1_000], &[300_000, 310_000], &[700_000, 800_000, 1_000_000], &[(1 << 20) - 1]];
    for (round, pauses) in pauses.into_iter().enumerate() {
        if round > 0 {
            client.send(get("/"));
        }
        accepted.head();
        accepted.send(head(content.len()));
        client.answer(true);
        let mut sent = 0;
        for end in pauses.iter().copied().chain([content.len()]) {
            let part = &content[sent..end];
            thread::scope(|scope| {
                scope.spawn(|| accepted.send(part));
                assert!(client.take_bytes(part.len()) == part, "{pauses:?}");
            });
            sent = end;
        }
    }
}

/// Regression test: an event stream with a large `Content-Length` also got the low-water mark. The next event
/// then arrived only when the gateway noticed that the server is slow, after at least 100 ms.
#[test]
fn client_gets_events_of_large_event_stream_without_delay() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send(get("/"));
    let mut accepted = script.accept();
    let content = numbered(1 << 20);
    let head = head(content.len()).replace("\r\n\r\n", "\r\nContent-Type: text/event-stream\r\n\r\n");
    let mut latencies = Vec::new();
    for round in 0..5 {
        if round > 0 {
            client.send(get("/"));
        }
        accepted.head();
        accepted.send(&head);
        client.answer(true);
        let (first, rest) = content.split_at(10);
        accepted.send(first);
        assert!(client.take_bytes(first.len()) == first);
        // After this pause, the gateway waits for the next event.
        thread::sleep(Duration::from_millis(20));
        let (second, rest) = rest.split_at(10);
        let sent = Clock::system().now_exact();
        accepted.send(second);
        assert!(client.take_bytes(second.len()) == second);
        latencies.push(Clock::system().now_exact().saturating_sub(sent));
        thread::scope(|scope| {
            scope.spawn(|| accepted.send(rest));
            assert!(client.take_bytes(rest.len()) == rest);
        });
    }
    // A busy machine can delay single events. The low-water mark delays the second event in every round.
    assert!(latencies.iter().any(|latency| *latency < Duration::from_millis(50)), "{latencies:?}");
}

#[test]
fn upstream_stalling_mid_large_body_leaves_response_incomplete() {
    let script = Script::start();
    let mut config = only(script.address);
    config.exchange.timeouts.content_idle = STALL_TIMEOUT;
    let gateway = Gateway::start(config);
    let mut client = Client::new(gateway.address);
    client.send(get("/"));
    let mut accepted = script.accept();
    accepted.head();
    let content = numbered(1 << 20);
    thread::scope(|scope| {
        scope.spawn(|| {
            accepted.send([head(2 * content.len()).as_bytes(), &content].concat());
            accepted.wait_for_end();
        });
        let answer = client.answer(false);
        assert!(answer.is_cut_off && answer.content == content);
    });
}

#[test]
fn client_disconnect_mid_large_body_closes_upstream_connection() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let pending = gateway.begin("GET", "");
    let mut accepted = script.accept();
    accepted.head();
    accepted.send(head(1 << 30));
    let piece = vec![0; 64 << 10];
    for _ in 0..16 {
        accepted.send(&piece);
    }
    pending.reset();
    while accepted.0.write_all(&piece).is_ok() {}
    accepted.wait_for_end();
}

#[test]
fn client_that_reads_no_large_body_is_disconnected() {
    let script = Script::start();
    let timeouts = Timeouts { write_stall: Duration::from_millis(300), ..Timeouts::default() };
    let config = Config { timeouts, ..Config::default() };
    let gateway = Gateway::with_server(script.address, |server| server.config(config));
    let mut client = Client::new(gateway.address);
    client.send(get("/"));
    let mut accepted = script.accept();
    accepted.head();
    accepted.send(head(1 << 30));
    let piece = vec![0; 64 << 10];
    while accepted.0.write_all(&piece).is_ok() {}
    let mut rest = Vec::new();
    client.read_rest(&mut rest);
    assert!(rest.len() < 1 << 30);
}

#[test]
fn drain_waits_for_large_body() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send(get("/"));
    let mut accepted = script.accept();
    accepted.head();
    let content = numbered(3_000_000);
    accepted.send([head(content.len()).as_bytes(), &content[..200_000]].concat());
    client.socket().peek(&mut [0]).unwrap();
    gateway.drain();
    thread::scope(|scope| {
        scope.spawn(|| accepted.send(&content[200_000..]));
        let answer = client.answer(false);
        assert!(answer.content == content && !answer.is_cut_off);
    });
}

#[test]
fn access_record_of_large_body_has_written_byte_count() {
    let (sender, records) = channel();
    let script = Script::start();
    let gateway = Gateway::with_server(script.address, |server| server.record(RecordSender(sender)));
    let mut client = Client::new(gateway.address);
    client.send(get("/"));
    let mut accepted = script.accept();
    accepted.head();
    let content = numbered(2_000_001);
    thread::scope(|scope| {
        scope.spawn(|| accepted.send([head(content.len()).as_bytes(), &content].concat()));
        assert!(client.answer(false).content == content);
    });
    assert_eq!(records.recv_timeout(TEST_TIMEOUT).unwrap(), (content.len() as u64, true));
    client.send(get("/"));
    accepted.head();
    thread::scope(|scope| {
        scope.spawn(move || accepted.send([head(content.len()).as_bytes(), &content[..1_000_000]].concat()));
        assert!(client.answer(false).is_cut_off);
    });
    assert_eq!(records.recv_timeout(TEST_TIMEOUT).unwrap(), (1_000_000, false));
}
