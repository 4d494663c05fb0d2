//! A load allocates no memory per request, however many there are.

use std::cell::Cell;
use std::fs::File;
use std::future::Future;
use std::io::{self, IoSlice, Write};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use thruway_bench::{
    Connect, ConnectionOptions, Endpoint, HttpRequest, HttpRequests, Limit, LoadUrl, McpOperation,
    McpRequests, OpenError, Opened, Pace, Requests, Revision, SessionUse, Share, StopFlag, Worker,
};
use thruway_net::{Clock, ManualTime, Transport};
use thruway_testkit::heap::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A server that allocates no memory. It answers every request a millisecond after it was written.
#[derive(Clone)]
struct Line {
    time: ManualTime,
    unanswered: Rc<Cell<usize>>,
    /// For JSON-RPC messages: the id of the next response. Ids count up from the first request.
    next_id: Option<Rc<Cell<u64>>>,
}

impl Line {
    /// Writes a response and returns its length.
    fn answer(&self, mut buffer: &mut [u8]) -> usize {
        let room = buffer.len();
        match &self.next_id {
            None => buffer.write_all(ANSWER).unwrap(),
            Some(id) => {
                // Padding makes all responses equally long.
                let id = id.replace(id.get() + 1);
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 47\r\n\r\n";
                write!(buffer, "{head}{{\"jsonrpc\":\"2.0\",\"id\":{id:>12},\"result\":{{}}}}").unwrap();
            }
        }
        room - buffer.len()
    }
}

impl Transport for Line {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let answers = self.unanswered.replace(0);
        if answers == 0 {
            // The connection must be polled again, because a response may be available then.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.time.advance(Duration::from_millis(1));
        let mut written = 0;
        for _ in 0..answers {
            written += self.answer(&mut buffer[written..]);
        }
        Poll::Ready(Ok(written))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        let ends = slices.iter().flat_map(|slice| slice.windows(4)).filter(|four| *four == b"\r\n\r\n");
        self.unanswered.set(self.unanswered.get() + ends.count());
        Poll::Ready(Ok(bytes))
    }

    fn poll_send_file(&mut self, _: &mut Context<'_>, _: &File, _: u64, _: usize) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn discard_unsent(&mut self) {}
}

impl Connect for Line {
    type Transport = Self;

    async fn connect(&self) -> Result<Opened<Self>, OpenError> {
        Ok(self.clone().into())
    }
}

/// Number of allocations for a load of `requests` requests.
fn cost(all: Arc<dyn Requests>, pace: Pace, pipeline: usize, requests: u64) -> u64 {
    let time = ManualTime::default();
    let clock = Clock::manual(time.clone());
    let share = Share {
        pace,
        limit: Limit::Requests(requests),
        warm_up: Duration::ZERO,
        worker: 0,
        workers: 1,
        interval: Duration::from_hours(1),
        stop: StopFlag::default(),
    };
    let connection_options = ConnectionOptions {
        is_http2: false,
        pipeline,
        is_persistent: true,
        timeout: Duration::from_mins(1),
        drain: Duration::from_secs(1),
    };
    let next_id = all.conversation().map(|_| Rc::new(Cell::new(1)));
    let server = Line { time: time.clone(), unanswered: Rc::default(), next_id };
    let before = allocations();
    let worker = Worker::new(clock, all, connection_options, share, Duration::ZERO, None);
    let mut slot = pin!(worker.clone().run_slot(0, server.clone(), Some(server)));
    let mut cx = Context::from_waker(Waker::noop());
    while slot.as_mut().poll(&mut cx).is_pending() {
        time.advance(Duration::from_micros(100));
        worker.wake_due();
    }
    let cost = allocations() - before;
    assert_eq!(worker.record().answered, requests);
    cost
}

fn gets() -> Arc<dyn Requests> {
    let request = HttpRequest::get(LoadUrl::parse("http://a.example/").unwrap());
    Arc::new(HttpRequests::new(&[request]).unwrap())
}

fn messages() -> Arc<dyn Requests> {
    let url = LoadUrl::parse("http://a.example/mcp").unwrap();
    let endpoint = Endpoint { url, headers: Vec::new(), is_persistent: true };
    let params = serde_json::json!({"name": "echo", "arguments": {"message": "{n}"}});
    let call = McpOperation { method: "tools/call".to_owned(), params, mirrored: Vec::new(), weight: 1 };
    let all = McpRequests::new(Revision::LATEST, SessionUse::None, &[call], Some(&endpoint));
    Arc::new(all.unwrap())
}

#[test]
fn allocations_do_not_depend_on_the_number_of_requests() {
    for pace in [Pace::Closed, Pace::Constant { rate: 500.0 }, Pace::Poisson { rate: 500.0, seed: 1 }] {
        for (all, pipeline) in [(gets(), 1), (gets(), 16), (messages(), 1), (messages(), 16)] {
            let few = cost(all.clone(), pace.clone(), pipeline, 1_000);
            let more = cost(all, pace.clone(), pipeline, 20_000).abs_diff(few);
            // Buffers grow to the longest batch so far.
            assert!(more <= 5, "{pace:?}, pipelines of {pipeline}: {more} allocations");
        }
    }
}
