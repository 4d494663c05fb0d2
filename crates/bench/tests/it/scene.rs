//! A worker and its server in memory. The simulated time advances when both are idle.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use thruway_bench::{
    Connect, ConnectionOptions, Expected, HttpRequest, HttpRequests, Limit, LoadUrl, OpenError, Opened, Pace,
    Record, Share, StopFlag, Worker,
};
use thruway_client::ConnectError;
use thruway_net::{Clock, ManualTime};
use thruway_testkit::{PipePeer, PipeTransport, pipe};

use crate::http2_scene;

pub(crate) const PROPER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// The response of a server to a request.
#[derive(Clone, Debug)]
pub(crate) struct Reaction {
    /// Time until the response.
    pub(crate) after: Duration,
    pub(crate) bytes: Vec<u8>,
    pub(crate) then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Then {
    KeepOpen,
    Finish,
    Reset,
}

impl Reaction {
    pub(crate) fn proper(after: Duration) -> Self {
        Self { after, bytes: PROPER.into(), then: Then::KeepOpen }
    }

    pub(crate) fn with(bytes: impl Into<Vec<u8>>, then: Then) -> Self {
        Self { after: Duration::from_millis(1), bytes: bytes.into(), then }
    }
}

/// The properties of a request that the server sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrivedRequest {
    /// Number of the request, counted from 0.
    pub(crate) number: u64,
    /// Time of arrival.
    pub(crate) now: Duration,
    /// HTTP/2 stream.
    pub(crate) stream: u32,
}

/// Chooses the response to a request.
pub(crate) type React = Box<dyn FnMut(ArrivedRequest) -> Reaction>;

pub(crate) struct Scene {
    pub(crate) pace: Pace,
    pub(crate) limit: Limit,
    pub(crate) warm_up: Duration,
    pub(crate) connection_options: ConnectionOptions,
    pub(crate) connections: usize,
    pub(crate) expected: Expected,
    pub(crate) stop: StopFlag,
    /// Time at which the stop flag is set.
    pub(crate) stops_at: Option<Duration>,
    pub(crate) refuses: bool,
    /// `true` if the worker always wakes up a millisecond late.
    pub(crate) is_late: bool,
}

/// The results of a load.
pub(crate) struct Outcome {
    pub(crate) record: Record,
    /// Time at which the last connection task ended.
    pub(crate) ended: Duration,
    /// Number of requests that the server has read.
    pub(crate) read: u64,
    /// Number of writes by the worker, on all connections.
    pub(crate) writes: usize,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            pace: Pace::Closed,
            limit: Limit::Requests(1),
            warm_up: Duration::ZERO,
            connection_options: ConnectionOptions {
                is_http2: false,
                pipeline: 1,
                is_persistent: true,
                timeout: Duration::from_secs(5),
                drain: Duration::from_secs(1),
            },
            connections: 1,
            expected: Expected::default(),
            stop: StopFlag::default(),
            stops_at: None,
            refuses: false,
            is_late: false,
        }
    }
}

impl Scene {
    /// Runs the load against a server that answers with `react`.
    pub(crate) fn run(self, mut react: impl FnMut(u64, Duration) -> Reaction + 'static) -> Outcome {
        let refuses = self.refuses;
        self.run_with(&Server::new(
            Box::new(move |request| react(request.number, request.now)),
            refuses,
            None,
        ))
    }

    /// Runs the load over HTTP/2. The server first sends `greeting`.
    pub(crate) fn run_http2(
        self,
        greeting: Vec<u8>,
        react: impl FnMut(ArrivedRequest) -> Reaction + 'static,
    ) -> Outcome {
        let scene = Self {
            connection_options: ConnectionOptions { is_http2: true, ..self.connection_options },
            ..self
        };
        scene.run_with(&Server::new(Box::new(react), false, Some(greeting)))
    }

    fn run_with(self, server: &Rc<RefCell<Server>>) -> Outcome {
        let time = ManualTime::default();
        let clock = Clock::manual(time.clone());
        let request = HttpRequest {
            expected: self.expected,
            is_persistent: self.connection_options.is_persistent,
            ..HttpRequest::get(LoadUrl::parse("http://a.example/{n}").unwrap())
        };
        let requests = HttpRequests::new(&[request]).unwrap();
        let requests =
            Arc::new(if self.connection_options.is_http2 { requests.for_http2().unwrap() } else { requests });
        let share = Share {
            pace: self.pace,
            limit: self.limit,
            warm_up: self.warm_up,
            worker: 0,
            workers: 1,
            interval: Duration::from_secs(1),
            stop: self.stop.clone(),
        };
        let worker =
            Worker::new(clock.clone(), requests, self.connection_options, share, Duration::ZERO, None);
        let slots: FuturesUnordered<Pin<Box<dyn Future<Output = ()>>>> = (0..self.connections)
            .map(|number| {
                let open = self.connection_options.is_persistent && !self.refuses;
                let first = open.then(|| server.borrow_mut().accept());
                let slot = worker.clone().run_slot(number, Connector(server.clone()), first);
                Box::pin(slot) as Pin<Box<dyn Future<Output = ()>>>
            })
            .collect();
        let mut slots = Slots { slots, wakes: Arc::new(Wakes(AtomicBool::new(true))) };
        while slots.run() {
            let next = worker.poll_next_wake(&Context::from_waker(Waker::noop()));
            let mut server = server.borrow_mut();
            server.read_requests(clock.now());
            let next = server.next_event().map_or(next, |event| event.min(next));
            let late = if self.is_late { Duration::from_millis(1) } else { Duration::ZERO };
            time.advance(next.saturating_sub(clock.now()) + late);
            server.deliver(clock.now());
            drop(server);
            if self.stops_at.is_some_and(|at| clock.now() >= at) {
                self.stop.stop();
            }
            worker.wake_due();
        }
        let server = server.borrow();
        let writes = server.connections.iter().map(|connection| connection.peer.writes()).sum();
        Outcome { record: worker.record(), ended: clock.now(), read: server.read, writes }
    }
}

struct Slots {
    slots: FuturesUnordered<Pin<Box<dyn Future<Output = ()>>>>,
    wakes: Arc<Wakes>,
}

struct Wakes(AtomicBool);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Slots {
    /// Polls all connection tasks until they are idle. Returns `false` if none is left.
    fn run(&mut self) -> bool {
        let waker = Waker::from(self.wakes.clone());
        let mut cx = Context::from_waker(&waker);
        while self.wakes.0.swap(false, Ordering::Relaxed) {
            while let Poll::Ready(ended) = self.slots.poll_next_unpin(&mut cx) {
                if ended.is_none() {
                    return false;
                }
            }
        }
        true
    }
}

struct Server {
    react: React,
    refuses: bool,
    connections: Vec<Connection>,
    /// Responses to send, by time. The number keeps the order of simultaneous ones.
    events: BinaryHeap<Reverse<Event>>,
    read: u64,
    /// First bytes of the server over HTTP/2.
    greeting: Option<Vec<u8>>,
}

/// Time, number of the request, connection, bytes to send, and the action after sending.
type Event = (Duration, u64, usize, Vec<u8>, Then);

struct Connection {
    peer: PipePeer,
    unread: Vec<u8>,
    /// Time of the latest response so far. Responses never overtake each other.
    last: Duration,
}

/// Removes the head of a request from `unread`.
fn next_request(unread: &mut Vec<u8>) -> Option<u32> {
    let end = unread.windows(4).position(|four| four == b"\r\n\r\n")?;
    unread.drain(..end + 4);
    Some(0)
}

struct Connector(Rc<RefCell<Server>>);

impl Connect for Connector {
    type Transport = PipeTransport;

    async fn connect(&self) -> Result<Opened<PipeTransport>, OpenError> {
        let mut server = self.0.borrow_mut();
        if server.refuses { Err(ConnectError::Refused.into()) } else { Ok(server.accept().into()) }
    }
}

impl Server {
    fn new(react: React, refuses: bool, greeting: Option<Vec<u8>>) -> Rc<RefCell<Self>> {
        let (connections, events) = (Vec::new(), BinaryHeap::new());
        Rc::new(RefCell::new(Self { react, refuses, connections, events, read: 0, greeting }))
    }

    fn accept(&mut self) -> PipeTransport {
        let (peer, driven) = pipe();
        self.greeting.iter().for_each(|greeting| peer.send(greeting));
        self.connections.push(Connection { peer, unread: Vec::new(), last: Duration::ZERO });
        driven
    }

    fn read_requests(&mut self, now: Duration) {
        for (index, connection) in self.connections.iter_mut().enumerate() {
            let received = connection.peer.received();
            if received.is_empty() {
                continue;
            }
            connection.unread.extend(received);
            let is_http2 = self.greeting.is_some();
            let next = if is_http2 { http2_scene::next_request } else { next_request };
            while let Some(stream) = next(&mut connection.unread) {
                let reaction = (self.react)(ArrivedRequest { number: self.read, now, stream });
                let at = now + reaction.after;
                // HTTP/2 streams may overtake each other; pipelined responses may not.
                connection.last = if is_http2 { at } else { connection.last.max(at) };
                let event = (connection.last, self.read, index, reaction.bytes, reaction.then);
                self.events.push(Reverse(event));
                self.read += 1;
            }
        }
    }

    fn next_event(&self) -> Option<Duration> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    fn deliver(&mut self, now: Duration) {
        while self.next_event().is_some_and(|at| at <= now) {
            let Some(Reverse((_, _, index, bytes, then))) = self.events.pop() else { return };
            let peer = &self.connections[index].peer;
            peer.send(bytes);
            match then {
                Then::KeepOpen => {}
                Then::Finish => peer.finish(),
                Then::Reset => peer.reset(),
            }
        }
    }
}
