//! Sides that are slow: what the other side notices, and how much is kept meanwhile.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use thruway_gateway::ForwardConfig;
use thruway_server::{Config, Timeouts};

use super::{Client, Script};
use crate::gateway::{Gateway, PATIENCE, until};

const CONTENT_BYTES: usize = 256 << 20;

/// What the test's own sockets hold, and what a gateway may hold besides its sockets.
const OWN_BYTES_MAX: usize = 8 << 20;

/// What both sides of a gateway may hold that is not taken. Its own sockets hold as much as the kernel lets them, which is tens of
/// megabytes where there is enough memory.
fn held_bytes_max() -> usize {
    let greatest = |name: &str| {
        let sizes = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap();
        sizes.split_whitespace().last().unwrap().parse::<usize>().unwrap()
    };
    let held = greatest("tcp_rmem") + greatest("tcp_wmem") + OWN_BYTES_MAX;
    assert!(held < CONTENT_BYTES / 2, "here the kernel holds too much for this test");
    held
}

/// Has the kernel hold no more than it must in a socket of the test.
fn hold_little(socket: &TcpStream) {
    set_socket_recv_buffer_size(socket, SOCKET_BYTES).unwrap();
    set_socket_send_buffer_size(socket, SOCKET_BYTES).unwrap();
}

const SOCKET_BYTES: usize = 128 << 10;

#[test]
fn a_client_that_never_reads_holds_up_its_upstream_and_nobody_else() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    hold_little(client.socket());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut accepted = script.accept();
    accepted.head();
    hold_little(&accepted.0);
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
        assert!(seen < held_bytes_max(), "{seen} octets were taken for a client that reads none");
        drop(client);
    });
}

#[test]
fn content_that_is_sent_faster_than_it_is_taken_waits_with_its_client() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    hold_little(client.socket());
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {CONTENT_BYTES}\r\n\r\n"));
    let mut accepted = script.accept();
    accepted.head();
    hold_little(&accepted.0);
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
    assert!(sent < held_bytes_max(), "{sent} octets were taken for an upstream that reads none");
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

/// Once the rest of a request stayed with its client as long as that did not read: each waited for the other.
#[test]
fn a_client_may_send_everything_before_it_reads_what_was_answered_meanwhile() {
    for framing in [format!("Content-Length: {UPLOAD_BYTES}"), "Transfer-Encoding: chunked".to_owned()] {
        let script = Script::start();
        let gateway = Gateway::to(script.address);
        let mut client = Client::new(gateway.address);
        hold_little(client.socket());
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"));
        let mut accepted = script.accept();
        accepted.head();
        hold_little(&accepted.0);
        accepted.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        let answered = fill(&accepted.0);
        // Nobody reads it, and all of the request is taken nevertheless.
        let content = vec![b'x'; UPLOAD_BYTES];
        let is_chunked = framing.starts_with("Transfer");
        let request = if is_chunked {
            [format!("{UPLOAD_BYTES:x}\r\n").as_bytes(), &content, b"\r\n0\r\n\r\n"].concat()
        } else {
            content
        };
        let mut writer = client.socket().try_clone().unwrap();
        let sending = thread::spawn(move || writer.write_all(&request));
        let (mut buffer, mut taken) = (vec![0; 1 << 16], Vec::new());
        while !(taken.len() >= UPLOAD_BYTES && (!is_chunked || taken.ends_with(b"\r\n0\r\n\r\n"))) {
            let read = accepted.0.read(&mut buffer).expect("the rest of the request");
            taken.extend_from_slice(&buffer[..read]);
        }
        sending.join().unwrap().unwrap();
        accepted.0.shutdown(Shutdown::Write).unwrap();
        let answer = client.answer(false);
        assert_eq!((answer.content.len(), answer.is_cut_off), (answered, false));
    }
}

const UPLOAD_BYTES: usize = 8 << 20;

/// Sends until nothing more is taken. How much was.
fn fill(socket: &TcpStream) -> usize {
    let mut socket = socket;
    socket.set_nonblocking(true).unwrap();
    let piece = vec![b'a'; 64 << 10];
    let (mut sent, mut refused) = (0, 0);
    until(|| {
        match socket.write(&piece) {
            Ok(taken) => (sent, refused) = (sent + taken, 0),
            Err(_) => refused += 1,
        }
        refused == 100_000
    });
    socket.set_nonblocking(false).unwrap();
    sent
}

/// Neither direction waits for the other, and what is held of both is bounded.
#[test]
fn a_client_that_sends_much_and_reads_nothing_and_an_upstream_that_does_the_same_hold_each_other_up() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    hold_little(client.socket());
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {CONTENT_BYTES}\r\n\r\n"));
    let mut accepted = script.accept();
    accepted.head();
    hold_little(&accepted.0);
    accepted.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {CONTENT_BYTES}\r\n\r\n"));
    let sides = [client.socket().try_clone().unwrap(), accepted.0.try_clone().unwrap()];
    let (mut sent, mut refused) = ([0; 2], 0);
    let piece = vec![b'a'; 64 << 10];
    for socket in &sides {
        socket.set_nonblocking(true).unwrap();
    }
    until(|| {
        for (socket, sent) in sides.iter().zip(&mut sent) {
            match (&*socket).write(&piece[..piece.len().min(CONTENT_BYTES - *sent)]) {
                Ok(taken) => (*sent, refused) = (*sent + taken, 0),
                Err(_) => refused += 1,
            }
        }
        refused >= 200_000
    });
    assert!(
        sent.iter().all(|sent| *sent < held_bytes_max()),
        "{sent:?} octets were taken though nobody reads"
    );
    for socket in &sides {
        socket.set_nonblocking(false).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
    }
    thread::scope(|scope| {
        for (socket, mut sent) in sides.iter().zip(sent) {
            let (piece, mut socket) = (&piece, socket);
            // A request whose answer is complete need not be: what is left of it is not taken any more.
            scope.spawn(move || {
                while let Ok(taken @ 1..) = socket.write(&piece[..piece.len().min(CONTENT_BYTES - sent)]) {
                    sent += taken;
                }
            });
        }
        scope.spawn(|| {
            let (mut buffer, mut received) = (vec![0; 1 << 20], 0);
            while let Ok(taken @ 1..) = accepted.0.read(&mut buffer)
                && received + taken < CONTENT_BYTES
            {
                received += taken;
            }
        });
        assert_eq!(client.answer(false).content.len(), CONTENT_BYTES);
    });
}

#[test]
fn a_client_that_sends_less_than_it_owes_is_given_up_and_its_request_is_never_complete() {
    let script = Script::start();
    let timeouts = Timeouts { content: Duration::from_millis(300), ..Timeouts::default() };
    let config = Config { timeouts, ..Config::default() };
    let gateway = Gateway::with(script.address, ForwardConfig::default(), config);
    let mut client = Client::new(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nslowly");
    let mut accepted = script.accept();
    accepted.head();
    assert_eq!(client.answer(false).status, 408);
    assert_eq!(accepted.wait_for_end(), b"slowly");
}
