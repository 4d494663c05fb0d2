//! Tests that a warmed-up connection handles requests without heap allocations.
//!
//! Each thread counts its own allocations. So the counts exclude clients and other tests.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use thruway_net::{Clock, ManualTime, Transport, Worker};
use thruway_server::layers::{Compression, Layered};
use thruway_server::{
    ClientAddr, Config, ConnectionDriver, ConnectionInfo, IntoHandler, ListenAddr, Request, Response, Router,
    Server,
};
use thruway_testkit::heap::{CountingAllocator, allocations, held_bytes};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Returns the measured handlers, one that allocates, and `/allocations`, which returns the count of its
/// worker.
fn app() -> Router {
    Router::new()
        .get("/plaintext", || "Hello, World!")
        .get("/users/{id}", |request: &Request| {
            Response::text(format_args!("user {}", request.parameter("id")))
        })
        .get("/allocates", || String::from("on the heap"))
        .mount("/compressed", Layered::new(|| Response::html(large_page())).layer(Compression::new()))
        .get("/allocations", || Response::text(format_args!("{:020}", allocations())))
}

/// Returns a page that is large enough to be compressed as a stream.
fn large_page() -> String {
    let lines = (0..300_000).fold(String::new(), |lines, n| lines + "<p>" + itoa::Buffer::new().format(n));
    lines.into_boxed_str().into_string()
}

const PLAINTEXT: &str =
    "GET /plaintext HTTP/1.1\r\nHost: a.example\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n";
const USER: &str = "GET /users/4711 HTTP/1.1\r\nHost: a.example\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n";
const COMPRESSED_BY_GZIP: &str =
    "GET /compressed HTTP/1.1\r\nHost: a.example\r\nAccept-Encoding: gzip\r\n\r\n";
const COMPRESSED_BY_BROTLI: &str =
    "GET /compressed HTTP/1.1\r\nHost: a.example\r\nAccept-Encoding: br\r\n\r\n";
const ALLOCATES: &str = "GET /allocates HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// A connection to a client that does not allocate. It supplies request bytes and counts response bytes.
#[derive(Clone, Default)]
struct Line(Rc<State>);

#[derive(Default)]
struct State {
    to_server: Cell<&'static [u8]>,
    /// Maximum number of bytes that one read returns.
    read_bytes_max: Cell<usize>,
    to_client_bytes: Cell<usize>,
}

impl Transport for Line {
    fn poll_read(&mut self, _: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let bytes = self.0.to_server.get();
        let length = bytes.len().min(buffer.len()).min(self.0.read_bytes_max.get());
        if length == 0 {
            // No waker is needed, because the test polls again after it supplies more bytes.
            return Poll::Pending;
        }
        let (read, left) = bytes.split_at(length);
        buffer[..length].copy_from_slice(read);
        self.0.to_server.set(left);
        Poll::Ready(Ok(length))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let length = slices.iter().map(|slice| slice.len()).sum();
        self.0.to_client_bytes.set(self.0.to_client_bytes.get() + length);
        Poll::Ready(Ok(length))
    }

    fn poll_send_file(&mut self, _: &mut Context<'_>, _: &File, _: u64, _: usize) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn discard_unsent(&mut self) {}
}

/// A connection that runs on this thread, with a clock that the test controls.
struct Scene {
    time: ManualTime,
    line: Line,
    connection: Pin<Box<dyn Future<Output = ()>>>,
}

impl Scene {
    fn start() -> Self {
        let time = ManualTime::default();
        let worker = Worker::for_test(Clock::manual(time.clone()));
        let config = Arc::new(Config::default());
        let driver = ConnectionDriver::new(app().into_handler(), config, worker.clone(), None);
        let info = ConnectionInfo {
            client: ClientAddr::Tcp(([192, 0, 2, 1], 4711).into()),
            peer: thruway_net::Peer::Unix { is_own_process: false },
            listener: 0,
            destination: None,
            tls: None,
            compression: <_>::default(),
            handler_settings: None,
        };
        let line = Line::default();
        line.0.read_bytes_max.set(usize::MAX);
        let connection = Box::pin(driver.drive(line.clone(), info, worker.guard_for_test()));
        Self { time, line, connection }
    }

    /// Returns the number of allocations for `requests`, which arrive in reads of at most `read_bytes_max`
    /// bytes.
    fn cost(&mut self, requests: &'static str, read_bytes_max: usize) -> u64 {
        let (before, received) = (allocations(), self.line.0.to_client_bytes.get());
        self.line.0.read_bytes_max.set(read_bytes_max);
        self.line.0.to_server.set(requests.as_bytes());
        let mut cx = Context::from_waker(Waker::noop());
        while !self.line.0.to_server.get().is_empty() {
            assert!(self.connection.as_mut().poll(&mut cx).is_pending(), "the connection should stay open");
        }
        assert!(self.line.0.to_client_bytes.get() > received, "there should be responses");
        allocations() - before
    }

    /// Returns the number of allocations for `times` times `requests`, after a warm-up.
    fn warm_cost(&mut self, requests: &'static str, read_bytes_max: usize, times: usize) -> u64 {
        for _ in 0..WARM_UP {
            self.cost(requests, read_bytes_max);
        }
        (0..times).map(|_| self.cost(requests, read_bytes_max)).sum()
    }
}

/// Repeats `request` [`DEPTH`] times.
fn pipelined(request: &'static str) -> &'static str {
    request.repeat(DEPTH).leak()
}

#[test]
fn request_causes_no_allocation() {
    for request in [PLAINTEXT, USER] {
        let mut scene = Scene::start();
        assert_eq!(scene.warm_cost(request, usize::MAX, 1000), 0, "{request}");
        assert_eq!(scene.warm_cost(pipelined(request), usize::MAX, 100), 0, "{request}");
    }
}

#[test]
fn fragmented_request_causes_no_allocation() {
    for request in [PLAINTEXT, USER] {
        let mut scene = Scene::start();
        assert_eq!(scene.warm_cost(request, 40, 1000), 0, "{request}");
        assert_eq!(scene.warm_cost(pipelined(request), 1000, 100), 0, "{request}");
    }
}

#[test]
fn new_date_header_causes_no_allocation() {
    let mut scene = Scene::start();
    assert_eq!(scene.warm_cost(PLAINTEXT, usize::MAX, 1), 0);
    for _ in 0..100 {
        scene.time.advance(Duration::from_secs(1));
        assert_eq!(scene.cost(PLAINTEXT, usize::MAX), 0);
    }
}

#[test]
fn allocating_handler_is_detected() {
    let mut scene = Scene::start();
    assert!(scene.warm_cost(ALLOCATES, usize::MAX, 100) >= 100);
}

/// Checks the memory that `Compression::streams_max` documents. The test excludes zstd: its C library does not
/// use the counting allocator.
#[test]
fn compressed_stream_uses_documented_amount_of_memory() {
    for (request, kibibytes) in [(COMPRESSED_BY_GZIP, 300..410), (COMPRESSED_BY_BROTLI, 2000..3600)] {
        let mut scene = Scene::start();
        scene.cost(PLAINTEXT, usize::MAX);
        let before = held_bytes();
        scene.cost(request, usize::MAX);
        let mut cx = Context::from_waker(Waker::noop());
        let most = (0..40).map(|_| {
            assert!(scene.connection.as_mut().poll(&mut cx).is_pending());
            held_bytes() - before
        });
        let held = (most.max().unwrap().cast_unsigned() - large_page().len()) >> 10;
        assert!(kibibytes.contains(&held), "{held} KiB: {request}");
    }
}

/// A client on a socket, and its server with one worker.
struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    /// Sends `requests` at once and reads `count` responses. All must have the length of the first.
    fn request(&mut self, requests: &str, count: usize) {
        self.stream.write_all(requests.as_bytes()).unwrap();
        let first = self.answer();
        self.buffer.resize(first.len() * (count - 1), 0);
        self.stream.read_exact(&mut self.buffer).unwrap();
    }

    /// Reads exactly one response.
    fn answer(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            head.push(byte[0].into());
        }
        let length = head.split("Content-Length: ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
        let mut content = vec![0; length.parse().unwrap()];
        self.stream.read_exact(&mut content).unwrap();
        head + str::from_utf8(&content).unwrap()
    }

    /// Returns the number of allocations of the worker since its start.
    fn allocations(&mut self) -> u64 {
        self.stream.write_all(b"GET /allocations HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
        self.answer().rsplit('\n').next().unwrap().parse().unwrap()
    }

    /// Returns the number of allocations for `times` times `requests`, after a warm-up.
    fn warm_cost(&mut self, requests: &str, count: usize, times: usize) -> u64 {
        for _ in 0..WARM_UP {
            self.request(requests, count);
            self.allocations();
        }
        let before = self.allocations();
        (0..times).for_each(|_| self.request(requests, count));
        self.allocations() - before
    }
}

#[test]
fn request_over_socket_causes_no_allocation() {
    let server = Server::new(app()).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let [ListenAddr::Tcp(address)] = *server.addresses() else {
        panic!("the server should have one TCP address")
    };
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut client = Client { stream, buffer: Vec::new() };
    for request in [PLAINTEXT, USER] {
        assert_eq!(client.warm_cost(request, 1, 1000), 0, "{request}");
        assert_eq!(client.warm_cost(&request.repeat(DEPTH), DEPTH, 100), 0, "{request}");
    }
    assert!(client.warm_cost(ALLOCATES, 1, 100) >= 100);
    drop(client);
    server.drain();
    server.join();
}

/// Number of pipelined requests.
const DEPTH: usize = 16;

/// Number of rounds before a connection must stop allocating.
const WARM_UP: usize = 10;

/// Limit for an operation of the server. Only a failed test reaches it.
const TIMEOUT: Duration = Duration::from_mins(1);
