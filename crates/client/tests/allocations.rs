//! Tests that an exchange on a reused connection allocates no memory.
//!
//! Each thread counts its own allocations, so that other tests do not count.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use thruway_client::{Config, Connection, Pool, PoolConfig, ReadBuffers, RequestToSend, ResponseEvent};
use thruway_http1::BodyLength;
use thruway_message::Method;
use thruway_net::Transport;
use thruway_testkit::heap::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// An upstream server that does not allocate. It answers every write with the same bytes.
#[derive(Clone, Default)]
struct Line(Rc<State>);

#[derive(Default)]
struct State {
    answer: Cell<&'static [u8]>,
    to_client: Cell<&'static [u8]>,
    /// Maximum number of bytes that one read returns.
    read_bytes_max: Cell<usize>,
}

impl Transport for Line {
    fn poll_read(&mut self, _: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let bytes = self.0.to_client.get();
        let length = bytes.len().min(buffer.len()).min(self.0.read_bytes_max.get());
        if length == 0 {
            return Poll::Pending;
        }
        let (read, left) = bytes.split_at(length);
        buffer[..length].copy_from_slice(read);
        self.0.to_client.set(left);
        Poll::Ready(Ok(length))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.0.to_client.set(self.0.answer.get());
        Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
    }

    fn poll_send_file(&mut self, _: &mut Context<'_>, _: &File, _: u64, _: usize) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn discard_unsent(&mut self) {}
}

/// Exchanges on pooled connections, one after the other.
struct Scene {
    line: Line,
    pool: Pool<u32, Line>,
    buffers: ReadBuffers,
}

const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a.example\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n";

impl Scene {
    fn start(answer: &'static [u8], read_bytes_max: usize) -> Self {
        let line = Line::default();
        line.0.answer.set(answer);
        line.0.read_bytes_max.set(read_bytes_max);
        Self { line, pool: Pool::new(PoolConfig::default()), buffers: ReadBuffers::default() }
    }

    /// Performs one exchange with the body `content`.
    fn exchange(&mut self, content: &[u8]) {
        let mut cx = Context::from_waker(Waker::noop());
        let now = Duration::ZERO;
        let pooled = self.pool.acquire(&1, now);
        let connection = pooled.unwrap_or_else(|| Connection::new(self.line.clone(), &Config::default()));
        let request = RequestToSend::new(Method::Get, BodyLength::Bytes(content.len() as u64));
        let mut exchange = connection.start(request, now, |output| output.extend_from_slice(HEAD));
        let mut sent = 0;
        while sent < content.len() {
            let Poll::Ready(Ok(taken)) = exchange.poll_send(&mut cx, now, &content[sent..]) else {
                panic!("everything is taken")
            };
            sent += taken;
        }
        while !exchange.is_complete() {
            // Uses one poll for each event, like a slow reader of the body.
            let event =
                exchange.begin_poll(&self.buffers).poll_event(&mut cx, now).map_ok(|event| match event {
                    ResponseEvent::Content(content) => content.len(),
                    _ => 0,
                });
            assert!(matches!(event, Poll::Ready(Ok(_))), "{event:?}");
        }
        self.pool.release(&1, exchange.finish().expect("the connection is reusable"), now);
    }

    /// Returns the number of allocations in `times` exchanges, after some warm-up exchanges.
    fn steady(&mut self, content: &[u8], times: usize) -> u64 {
        (0..WARM_UP).for_each(|_| self.exchange(content));
        let before = allocations();
        (0..times).for_each(|_| self.exchange(content));
        allocations() - before
    }
}

fn chunked() -> &'static [u8] {
    let chunks = format!("7d0\r\n{}\r\n", "a".repeat(2000)).repeat(100);
    format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n").leak().as_bytes()
}

#[test]
fn exchange_on_a_reused_connection_does_not_allocate() {
    let answer = b"HTTP/1.1 200 OK\r\nDate: Tue, 15 Nov 1994 08:12:31 GMT\r\nContent-Length: 2\r\n\r\nok";
    for read_bytes_max in [usize::MAX, 40, 7] {
        assert_eq!(Scene::start(answer, read_bytes_max).steady(b"", 1000), 0);
        assert_eq!(Scene::start(answer, read_bytes_max).steady(b"content", 1000), 0);
    }
}

#[test]
fn large_request_and_response_bodies_do_not_allocate() {
    let content = vec![b'a'; 1 << 20];
    assert_eq!(Scene::start(chunked(), 60 << 10).steady(&content, 20), 0);
}

/// Number of exchanges after which a connection must not allocate any more.
const WARM_UP: usize = 10;
