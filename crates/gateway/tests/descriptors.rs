//! No pipe is lost, however exchanges end. It counts those of the whole process, and so has one of its own.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use thruway_client::SystemResolver;
use thruway_gateway::{Forward, Upstream, UpstreamConfig};
use thruway_net::Clock;
use thruway_server::{ListenAddr, RunningServer, Server};

/// A gateway with one worker.
fn start(upstream: SocketAddr) -> (RunningServer, SocketAddr) {
    let mut config = UpstreamConfig::new("a", [upstream.into()]);
    config.ejection.failures = 0;
    let upstream = Arc::new(Upstream::new(config));
    upstream.start_with(Arc::new(SystemResolver)).wait();
    let server =
        Server::new(Forward::new(upstream)).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let [ListenAddr::Tcp(address)] = *server.addresses() else { panic!("one address was asked for") };
    (server, address)
}

/// An upstream that announces much on each connection, and sends `CONTENT_BYTES` of it or until it is not
/// taken any more.
fn announce_more_than_is_sent() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || answer(stream));
        }
    });
    address
}

fn answer(mut stream: TcpStream) {
    let mut last = [0; 4];
    while last != *b"\r\n\r\n" {
        last.rotate_left(1);
        if stream.read_exact(&mut last[3..]).is_err() {
            return;
        }
    }
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 2 * CONTENT_BYTES);
    // The gateway may go first.
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(&vec![b'a'; CONTENT_BYTES]);
}

fn ask(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    stream
}

/// How many descriptors of this process are ends of pipes.
fn pipe_ends() -> usize {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().map_while(Result::ok);
    // Some are gone before they are looked at.
    let links = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("pipe:")).count()
}

fn until(what: &str, is_so: impl Fn(usize) -> bool) {
    let end = Clock::system().now_exact() + PATIENCE;
    while !is_so(pipe_ends()) {
        assert!(Clock::system().now_exact() < end, "{what}: there are {} ends of pipes", pipe_ends());
        thread::yield_now();
    }
}

#[test]
fn pipes_are_neither_lost_nor_kept_by_exchanges_that_fail() {
    // The harness has pipes of its own, perhaps.
    let others = pipe_ends();
    let (server, address) = start(announce_more_than_is_sent());
    for _ in 0..ROUNDS {
        // The upstream dies.
        let mut bytes = Vec::new();
        ask(address).read_to_end(&mut bytes).unwrap();
        assert!(bytes.len() > CONTENT_BYTES);
        // The client goes, while its socket is full.
        let client = ask(address);
        client.peek(&mut [0]).unwrap();
        set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    }
    // As many pipes as there may be were lost by now if each failure lost one.
    let stalled: Vec<_> = (0..3).map(|_| ask(address)).collect();
    until("clients that stop reading hold pipes", |ends| ends >= others + 2 * stalled.len());
    drop(stalled);
    until("clients that have gone hold none", |ends| ends <= others + 2 * KEPT_MAX);
    server.drain();
    server.join();
    until("workers that have ended have none", |ends| ends == others);
}

/// More than sockets hold.
const CONTENT_BYTES: usize = 16 << 20;

/// Twice that is more than there are pipes.
const ROUNDS: usize = 40;

/// What a worker may keep for the next.
const KEPT_MAX: usize = 32;

/// How long to wait for what has gone wrong.
const PATIENCE: Duration = Duration::from_mins(1);
