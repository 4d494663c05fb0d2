//! Failed exchanges leak no pipes. The test counts the pipes of the whole process, so it runs in a separate
//! process.

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

/// Starts a gateway with one worker.
fn start(upstream: SocketAddr) -> (RunningServer, SocketAddr) {
    let mut config = UpstreamConfig::new("a", [upstream.into()]);
    config.ejection.failures = 0;
    let upstream = Arc::new(Upstream::new(config));
    upstream.start_with(Arc::new(SystemResolver)).wait();
    let server =
        Server::new(Forward::new(upstream)).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let [ListenAddr::Tcp(address)] = *server.addresses() else { panic!("expected one TCP address") };
    (server, address)
}

/// Starts an upstream server that announces a longer body than it sends: `CONTENT_BYTES`, or less if the
/// gateway stops reading.
fn start_truncating_upstream() -> SocketAddr {
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
    // The gateway may close the connection first.
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(&vec![b'a'; CONTENT_BYTES]);
}

fn ask(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    stream
}

/// Number of file descriptors of this process that are ends of pipes.
fn pipe_ends() -> usize {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().map_while(Result::ok);
    // Some descriptors are closed before they are read.
    let links = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("pipe:")).count()
}

fn until(state: &str, is_done: impl Fn(usize) -> bool) {
    let end = Clock::system().now_exact() + TEST_TIMEOUT;
    while !is_done(pipe_ends()) {
        assert!(
            Clock::system().now_exact() < end,
            "not reached: {state}; {} pipe ends are open",
            pipe_ends()
        );
        thread::yield_now();
    }
}

#[test]
fn failed_exchanges_leak_no_pipes() {
    // The test harness may have open pipes.
    let initial = pipe_ends();
    let (server, address) = start(start_truncating_upstream());
    for _ in 0..ROUNDS {
        // The upstream server truncates its response.
        let mut bytes = Vec::new();
        ask(address).read_to_end(&mut bytes).unwrap();
        assert!(bytes.len() > CONTENT_BYTES);
        // The client disconnects while its socket is full.
        let client = ask(address);
        client.peek(&mut [0]).unwrap();
        set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    }
    // If each failure leaked a pipe, the limit of pipes would be exhausted by now.
    let stalled: Vec<_> = (0..3).map(|_| ask(address)).collect();
    until("clients that stop reading hold pipes", |ends| ends >= initial + 2 * stalled.len());
    drop(stalled);
    until("disconnected clients hold no pipes", |ends| ends <= initial + 2 * KEPT_MAX);
    server.drain();
    server.join();
    until("stopped workers hold no pipes", |ends| ends == initial);
}

/// More than the sockets can buffer.
const CONTENT_BYTES: usize = 16 << 20;

/// Twice this number is more than the limit of pipes.
const ROUNDS: usize = 40;

/// Maximum number of pipes that a worker keeps for reuse.
const KEPT_MAX: usize = 32;

/// Time limit of each wait. It expires only if the test fails.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);
