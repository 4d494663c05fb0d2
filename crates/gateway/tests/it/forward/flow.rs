//! Sides that are slow: what the other side notices, and how much is kept meanwhile.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::{Client, Script};
use crate::gateway::{Gateway, until};

const CONTENT_BYTES: usize = 256 << 20;

/// What the kernel may hold between two of its own sockets, twice, and what a gateway may hold besides.
const HELD_BYTES_MAX: usize = 32 << 20;

#[test]
fn a_client_that_never_reads_holds_up_its_upstream_and_nobody_else() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut accepted = script.accept();
    accepted.head();
    let sent = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            accepted.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {CONTENT_BYTES}\r\n\r\n"));
            let piece = vec![b'a'; 64 << 10];
            // Fails when the client has gone.
            while accepted.0.write_all(&piece).is_ok() {
                sent.fetch_add(piece.len(), Ordering::SeqCst);
            }
        });
        // Others are served until nothing more of it is taken.
        let mut others = Client::new(gateway.address);
        others.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut other = script.accept();
        let mut seen = 0;
        let mut unchanged = 0;
        for _ in 0..10_000 {
            other.head();
            other.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            assert_eq!(others.answer(false).text(), "ok");
            let now = sent.load(Ordering::SeqCst);
            unchanged = if now == seen { unchanged + 1 } else { 0 };
            seen = now;
            if seen > 0 && unchanged == 500 {
                break;
            }
            others.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        assert_eq!(unchanged, 500, "the upstream is still being read");
        assert!(seen < HELD_BYTES_MAX, "{seen} octets were taken for a client that reads none");
        drop(client);
    });
}

#[test]
fn content_that_is_sent_faster_than_it_is_taken_waits_with_its_client() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {CONTENT_BYTES}\r\n\r\n"));
    let mut accepted = script.accept();
    accepted.head();
    let socket = client.socket().try_clone().unwrap();
    socket.set_nonblocking(true).unwrap();
    let piece = vec![b'a'; 64 << 10];
    let (mut sent, mut refused) = (0, 0);
    until(|| {
        match (&socket).write(&piece[..piece.len().min(CONTENT_BYTES - sent)]) {
            Ok(taken) => (sent, refused) = (sent + taken, 0),
            Err(_) => refused += 1,
        }
        refused == 100_000
    });
    assert!(sent < HELD_BYTES_MAX, "{sent} octets were taken for an upstream that reads none");
    socket.set_nonblocking(false).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            while sent < CONTENT_BYTES {
                sent += (&socket).write(&piece[..piece.len().min(CONTENT_BYTES - sent)]).unwrap();
            }
        });
        let mut buffer = vec![0; 1 << 20];
        let mut received = 0;
        while received < CONTENT_BYTES {
            received += accepted.0.read(&mut buffer).unwrap();
        }
    });
    accepted.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(client.answer(false).text(), "ok");
}
