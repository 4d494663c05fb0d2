//! Tests of response bodies that are so large that they bypass the gateway's own memory.

use std::io::Write;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use thruway_server::{Config, Record, Recorder, TakeRecord, Timeouts};

use super::{Client, Script};
use crate::gateway::{AMPLE, Gateway, PATIENCE, only};

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
struct Sends(Sender<(u64, bool)>);

impl Recorder for Sends {
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
fn large_content_arrives_as_it_was_sent_and_connections_are_used_again() {
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
    assert!(script.is_left_alone());
}

#[test]
fn content_that_comes_in_small_parts_is_put_together_right() {
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
fn answers_behind_large_content_wait_for_their_turn() {
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
fn what_comes_behind_large_content_is_not_passed_on_and_its_connection_not_used_again() {
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
fn an_upstream_that_dies_in_large_content_leaves_an_incomplete_answer() {
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
            assert!(client.any_answer(false).is_none(), "a connection with an incomplete answer goes on");
        });
    }
}

#[test]
fn an_upstream_that_stops_in_large_content_leaves_an_incomplete_answer() {
    let script = Script::start();
    let mut config = only(script.address);
    config.exchange.timeouts.content_idle = AMPLE;
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
fn a_client_that_leaves_in_large_content_takes_its_upstream_along() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let asked = gateway.begin("GET", "");
    let mut accepted = script.accept();
    accepted.head();
    accepted.send(head(1 << 30));
    let piece = vec![0; 64 << 10];
    for _ in 0..16 {
        accepted.send(&piece);
    }
    asked.break_off();
    while accepted.0.write_all(&piece).is_ok() {}
    accepted.wait_for_end();
}

#[test]
fn a_client_that_takes_nothing_of_large_content_is_given_up() {
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
fn a_drain_waits_for_large_content() {
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
fn records_of_large_content_say_how_much_was_written() {
    let (sender, records) = channel();
    let script = Script::start();
    let gateway = Gateway::with_server(script.address, |server| server.record(Sends(sender)));
    let mut client = Client::new(gateway.address);
    client.send(get("/"));
    let mut accepted = script.accept();
    accepted.head();
    let content = numbered(2_000_001);
    thread::scope(|scope| {
        scope.spawn(|| accepted.send([head(content.len()).as_bytes(), &content].concat()));
        assert!(client.answer(false).content == content);
    });
    assert_eq!(records.recv_timeout(PATIENCE).unwrap(), (content.len() as u64, true));
    client.send(get("/"));
    accepted.head();
    thread::scope(|scope| {
        scope.spawn(move || accepted.send([head(content.len()).as_bytes(), &content[..1_000_000]].concat()));
        assert!(client.answer(false).is_cut_off);
    });
    assert_eq!(records.recv_timeout(PATIENCE).unwrap(), (1_000_000, false));
}
