//! Tests of slow clients and slow upstream servers: backpressure and the amount of buffered data.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use thruway_gateway::ForwardConfig;
use thruway_server::{Config, Timeouts};

use super::{Client, Script};
use crate::gateway::{Gateway, STALL_TIMEOUT, TEST_TIMEOUT};

/// Upper bound of the bytes in the test's own sockets, and of those in the gateway's memory.
const OWN_BYTES_MAX: usize = 8 << 20;

/// Maximum number of bytes that the gateway may hold for both directions. The kernel decides how much the
/// gateway's sockets hold: tens of megabytes if there is enough memory.
fn held_bytes_max() -> usize {
    let greatest = |name: &str| {
        let sizes = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap();
        sizes.split_whitespace().last().unwrap().parse::<usize>().unwrap()
    };
    greatest("tcp_rmem") + greatest("tcp_wmem") + OWN_BYTES_MAX
}

/// Length of a body that is much larger than a gateway may hold.
fn large_content_bytes() -> usize {
    3 * held_bytes_max()
}

/// Makes the kernel buffer as little as possible for a socket of the test.
fn shrink_buffers(socket: &TcpStream) {
    set_socket_recv_buffer_size(socket, SOCKET_BYTES).unwrap();
    set_socket_send_buffer_size(socket, SOCKET_BYTES).unwrap();
}

const SOCKET_BYTES: usize = 128 << 10;

/// Writes to all sockets until none has accepted anything for [`STALL`]. Returns the number of bytes that
/// each accepted.
///
/// The time limit replaces a count of refused writes: on a busy machine, 100,000 of them took too long.
fn fill<const N: usize>(sockets: [&TcpStream; N]) -> [usize; N] {
    let piece = vec![b'a'; 64 << 10];
    let mut sent = [0; N];
    for socket in sockets {
        socket.set_nonblocking(true).unwrap();
    }
    loop {
        let mut polled = sockets.map(|socket| PollFd::new(socket, PollFlags::OUT));
        if poll(&mut polled, Some(&STALL)).unwrap() == 0 {
            break;
        }
        for (mut socket, sent) in sockets.into_iter().zip(&mut sent) {
            match socket.write(&piece) {
                Ok(taken) => *sent += taken,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            assert!(
                *sent < held_bytes_max(),
                "the gateway took {sent} bytes, which the other side does not read"
            );
        }
    }
    for socket in sockets {
        socket.set_nonblocking(false).unwrap();
    }
    sent
}

/// Time after which a socket that accepts nothing counts as full. If the kernel suspends the gateway for
/// longer, the gateway has accepted less than it may, and the test still passes.
const STALL: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

#[test]
fn client_that_never_reads_stalls_only_its_own_response() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    shrink_buffers(client.socket());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut accepted = script.accept();
    accepted.head();
    shrink_buffers(&accepted.0);
    let sent = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let length = large_content_bytes();
            accepted.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"));
            let piece = vec![b'a'; 64 << 10];
            // Fails after the client has disconnected.
            while accepted.0.write_all(&piece).is_ok() {
                sent.fetch_add(piece.len(), Ordering::SeqCst);
            }
        });
        // The gateway serves other clients until the buffers of the slow client's response are full.
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
        assert_eq!(unchanged, 500, "the gateway still reads from the upstream server");
        assert!(seen < held_bytes_max(), "the gateway took {seen} bytes, but the client reads none");
        drop(client);
    });
}

#[test]
fn slow_upstream_causes_backpressure_on_the_client() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    shrink_buffers(client.socket());
    let length = large_content_bytes();
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"));
    let mut accepted = script.accept();
    accepted.head();
    shrink_buffers(&accepted.0);
    let socket = client.socket().try_clone().unwrap();
    let [mut sent] = fill([&socket]);
    thread::scope(|scope| {
        scope.spawn(move || {
            let piece = vec![b'a'; 64 << 10];
            while sent < length {
                sent += (&socket).write(&piece[..piece.len().min(length - sent)]).unwrap();
            }
        });
        let mut buffer = vec![0; 1 << 20];
        let mut received = 0;
        while received < length {
            received += accepted.0.read(&mut buffer).unwrap();
        }
    });
    accepted.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(client.answer(false).text(), "ok");
}

/// Regression test: the gateway stopped reading the request while the client did not read the response.
/// Client and upstream server waited for each other.
#[test]
fn client_can_finish_upload_before_reading_the_response() {
    for framing in [format!("Content-Length: {UPLOAD_BYTES}"), "Transfer-Encoding: chunked".to_owned()] {
        let script = Script::start();
        let gateway = Gateway::to(script.address);
        let mut client = Client::new(gateway.address);
        shrink_buffers(client.socket());
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"));
        let mut accepted = script.accept();
        accepted.head();
        shrink_buffers(&accepted.0);
        accepted.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        let [answered] = fill([&accepted.0]);
        // The client reads nothing of the response, but the gateway still forwards the whole request.
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

/// Neither direction waits for the other, and the gateway buffers a bounded amount of both.
#[test]
fn both_directions_have_backpressure_if_neither_side_reads() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    shrink_buffers(client.socket());
    let length = large_content_bytes();
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"));
    let mut accepted = script.accept();
    accepted.head();
    shrink_buffers(&accepted.0);
    accepted.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"));
    let sides = [client.socket().try_clone().unwrap(), accepted.0.try_clone().unwrap()];
    let sent = fill(sides.each_ref());
    let piece = vec![b'a'; 64 << 10];
    for socket in &sides {
        socket.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
    }
    thread::scope(|scope| {
        for (socket, mut sent) in sides.iter().zip(sent) {
            let (piece, mut socket) = (&piece, socket);
            // If the response is complete, the gateway stops reading the request. Writing may therefore end
            // early.
            scope.spawn(move || {
                while let Ok(taken @ 1..) = socket.write(&piece[..piece.len().min(length - sent)]) {
                    sent += taken;
                }
            });
        }
        scope.spawn(|| {
            let (mut buffer, mut received) = (vec![0; 1 << 20], 0);
            while let Ok(taken @ 1..) = accepted.0.read(&mut buffer)
                && received + taken < length
            {
                received += taken;
            }
        });
        assert_eq!(client.answer(false).content.len(), length);
    });
}

#[test]
fn stalled_upload_gets_408_and_leaves_request_incomplete() {
    let script = Script::start();
    let timeouts = Timeouts { content: STALL_TIMEOUT, ..Timeouts::default() };
    let config = Config { timeouts, ..Config::default() };
    let gateway = Gateway::with(script.address, ForwardConfig::default(), config);
    let mut client = Client::new(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nslowly");
    let mut accepted = script.accept();
    accepted.head();
    assert_eq!(client.answer(false).status, 408);
    assert_eq!(accepted.wait_for_end(), b"slowly");
}
