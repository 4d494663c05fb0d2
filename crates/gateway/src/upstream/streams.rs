//! The connections of one worker to servers that speak HTTP/2: each is shared by as many requests as its server allows.
//!
//! Where servers choose the version, one that has chosen HTTP/1.1 last is expected to do so again: nobody waits for a connection that could not
//! be shared. Whoever is mistaken in what a server will choose takes what has come of it.
//!
//! A server that is found down or ejected may be back at the same address as another one. So what was opened before gets no new requests, and those
//! that wait there are to hear soon if nobody is at its other end any more.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use thruway_client::http2::{Connection, Doubt, Driver, Http2Config};
use thruway_client::{self as client, UpstreamStream};
use thruway_net::{Clock, Worker, spawn};
use tokio::time::sleep;

use super::condition::{Chosen, Condition};
use super::connections::connect_secured;
use super::{Acquired, Lease, Ongoing};
use crate::Failure;

/// The connections to one server.
#[derive(Default)]
struct Shared {
    /// In the order in which they were opened.
    open: Vec<Open>,
    /// Somebody is about to open one.
    opening: Option<Rc<Opening>>,
}

/// A connection that is open.
struct Open {
    number: u64,
    connection: Connection,
    ongoing: Arc<Ongoing>,
    driving: Rc<Driving>,
    /// Those of the server when it was opened.
    setbacks: usize,
}

/// What drives a connection, until that has ended or is closed.
struct Driving {
    driver: RefCell<Option<Driver>>,
    task: RefCell<Waker>,
}

/// A connection that is being opened, and those who wait for it.
#[derive(Default)]
struct Opening {
    outcome: Cell<Option<Outcome>>,
    waiting: RefCell<Vec<Waker>>,
}

/// What has come of it.
#[derive(Clone, Copy)]
enum Outcome {
    Open,
    Failed(Failure),
    /// Whoever was about to has gone.
    GivenUp,
}

/// The id of an upstream and the number of one of its servers.
type Key = (u64, usize);

thread_local! {
    static SHARED: RefCell<HashMap<Key, Shared>> = RefCell::default();
    /// The number of the connection that was opened last.
    static LAST: Cell<u64> = const { Cell::new(0) };
}

/// A connection that others may share.
pub(crate) struct SharedConnection {
    pub(crate) connection: Connection,
    /// Those that are opened later have higher ones.
    pub(crate) number: u64,
    /// Whether it was there before.
    pub(crate) is_reused: bool,
}

/// A connection of one version or the other, and what drives it.
enum Opened {
    Http1(client::Connection),
    Http2(Box<SharedConnection>, Driver),
}

/// There is no connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotOpened {
    pub(crate) failure: Failure,
    /// Another request was about to open one and is counted as failed, and this one has only waited for it.
    pub(crate) is_counted: bool,
}

/// A connection to the leased server with room for one more exchange, which was opened later than the one of this number. A server that
/// refuses streams or leaves does so to many requests at once: what they are sent again on is one connection too. Where the server may choose,
/// it can be one of HTTP/1.1, for this request alone. So is every connection if requests [share none](Lease::shares_connections).
pub(crate) async fn share(
    lease: &Lease,
    http2: &Http2Config,
    later_than: Option<u64>,
) -> Result<Acquired, NotOpened> {
    if !lease.shares_connections() {
        return Ok(match open(lease, http2).await? {
            Opened::Http1(connection) => Acquired::Http1(connection),
            Opened::Http2(unshared, driver) => {
                spawn(driver);
                Acquired::Http2(unshared)
            }
        });
    }
    loop {
        match find(lease, later_than) {
            Some(Ok((number, connection))) => {
                let shared = SharedConnection { connection, number, is_reused: true };
                return Ok(Acquired::Http2(Box::new(shared)));
            }
            Some(Err(opening)) => {
                if let Outcome::Failed(failure) = opening.wait().await {
                    return Err(NotOpened { failure, is_counted: true });
                }
            }
            None if lease.may_connect() => break,
            None => {
                let waited = lease.wait_to_share().await;
                waited.map_err(|failure| NotOpened { failure, is_counted: false })?;
            }
        }
    }
    let guard = is_waited_for(lease).then(|| Guard::begin(lease));
    let opened = open(lease, http2).await;
    if let Some(guard) = guard {
        guard.end(opened.as_ref().map_or_else(|failed| Outcome::Failed(failed.failure), |_| Outcome::Open));
    }
    match opened? {
        Opened::Http1(connection) => Ok(Acquired::Http1(connection)),
        Opened::Http2(shared, driver) => {
            keep(lease, &shared, driver);
            Ok(Acquired::Http2(shared))
        }
    }
}

/// Whether a connection that is being opened will be shared, as far as anybody knows.
fn is_waited_for(lease: &Lease) -> bool {
    !lease.upstream.config.negotiates_http2 || lease.server.condition.chosen() != Chosen::Http1
}

/// A new connection, and what drives it if it is one of HTTP/2.
async fn open(lease: &Lease, http2: &Http2Config) -> Result<Opened, NotOpened> {
    let failed = |failure: Failure| NotOpened { failure, is_counted: false };
    let config = &lease.upstream.config;
    let stream = connect_secured(lease, None).await.map_err(|error| failed(error.into()))?;
    if config.negotiates_http2 {
        let chosen = if speaks_http2(&stream) { Chosen::Http2 } else { Chosen::Http1 };
        lease.server.condition.set_chosen(chosen);
        if chosen == Chosen::Http1 {
            return Ok(Opened::Http1(client::Connection::new(stream, &config.exchange)));
        }
    }
    let worker = Worker::current();
    let clock = worker.as_ref().map_or_else(Clock::system, |worker| worker.clock().clone());
    let deadlines = worker.as_ref().map(|worker| worker.deadlines());
    let connected = Connection::new(stream, &config.exchange, http2, &clock, deadlines).await;
    let (connection, driver) = connected.map_err(|error| failed(error.into()))?;
    let number = LAST.get() + 1;
    LAST.set(number);
    let opened = SharedConnection { connection, number, is_reused: false };
    Ok(Opened::Http2(Box::new(opened), driver))
}

/// Whether the server has chosen HTTP/2 (RFC 9113 §3.2).
pub(super) fn speaks_http2(stream: &UpstreamStream) -> bool {
    stream.alpn() == Some(b"h2")
}

/// Lets others share a connection until that has ended.
fn keep(lease: &Lease, shared: &SharedConnection, driver: Driver) {
    let (key, number) = (key_of(lease), shared.number);
    let driving = Rc::new(Driving { driver: RefCell::new(Some(driver)), task: Waker::noop().clone().into() });
    let setbacks = lease.server.condition.setbacks();
    let (ongoing, connection) = (lease.upstream.ongoing.clone(), shared.connection.clone());
    let open = Open { number, connection, ongoing, driving: driving.clone(), setbacks };
    with_shared(key, |shared| shared.open.push(open));
    spawn(doubt_after_setback(lease.server.condition.clone(), setbacks, shared.connection.doubt()));
    spawn(async move {
        driving.run().await;
        with_shared(key, |shared| shared.open.retain(|open| open.number != number));
    });
}

/// Has a server asked whether it is still there when it was found down or was ejected, as long as the connection is there.
async fn doubt_after_setback(condition: Arc<Condition>, setbacks: usize, doubt: Doubt) {
    while !doubt.is_over() {
        if condition.setbacks() != setbacks {
            return doubt.ask();
        }
        sleep(LOOK_AT_SERVER).await;
    }
}

impl Driving {
    async fn run(&self) {
        poll_fn(|cx| {
            self.task.borrow_mut().clone_from(cx.waker());
            let mut driver = self.driver.borrow_mut();
            let ended = driver.as_mut().map_or(Poll::Ready(()), |driver| Pin::new(driver).poll(cx));
            if ended.is_ready() {
                *driver = None;
            }
            ended
        })
        .await;
    }

    /// Closes the connection.
    fn end(&self) {
        drop(self.driver.take());
        self.task.borrow().wake_by_ref();
    }
}

/// Closes the connection that was opened first of those to servers of an upstream that this worker has and that nobody uses. Whether there was
/// one.
pub(super) fn close_idle(ongoing: &Arc<Ongoing>) -> bool {
    SHARED.with_borrow_mut(|all| {
        let open = all.values_mut().flat_map(|shared| &mut shared.open);
        let of_upstream = open.filter(|open| Arc::ptr_eq(&open.ongoing, ongoing));
        let idle = of_upstream.filter_map(|open| open.is_idle().then_some(&*open));
        let Some(first) = idle.min_by_key(|open| open.number) else { return false };
        first.driving.end();
        true
    })
}

impl Open {
    fn has_room(&mut self) -> bool {
        self.connection.has_room()
    }

    /// Whether it may get requests: its server was well ever since, or there may be no other before those on it have ended.
    fn is_trusted(&self, lease: &Lease) -> bool {
        let was_well = self.setbacks == lease.server.condition.setbacks();
        was_well || (lease.upstream.limits_connections() && !self.connection.is_idle())
    }

    /// Whether it could be used, and is not.
    fn is_idle(&mut self) -> bool {
        !self.connection.is_over() && self.connection.is_idle()
    }
}

/// Whether a request for the leased server has a stream, or will have one of a connection that is being opened.
pub(super) fn may_share(lease: &Lease) -> bool {
    lease.shares_connections() && lease.upstream.config.http2.is_some() && find(lease, None).is_some()
}

/// The servers of the leased one's upstream to which there are connections that have room.
pub(super) fn with_room(lease: &Lease) -> Vec<usize> {
    SHARED.with_borrow_mut(|all| {
        let of_upstream = all.iter_mut().filter(|((upstream, _), _)| *upstream == lease.upstream.id);
        let with_room = of_upstream.filter_map(|((_, server), shared)| {
            shared.open.iter_mut().any(Open::has_room).then_some(*server)
        });
        with_room.collect()
    })
}

/// A connection with room that was opened later than the one of this number, or what to wait for; `None` if there is neither.
fn find(lease: &Lease, later_than: Option<u64>) -> Option<Result<(u64, Connection), Rc<Opening>>> {
    with_shared(key_of(lease), |shared| {
        shared.open.retain_mut(|open| !open.connection.is_over() && open.is_trusted(lease));
        let mut later = shared.open.iter_mut().filter(|open| Some(open.number) > later_than);
        let open = later.find_map(|open| open.has_room().then(|| (open.number, open.connection.clone())));
        open.map(Ok).or_else(|| shared.opening.clone().filter(|_| is_waited_for(lease)).map(Err))
    })
}

fn key_of(lease: &Lease) -> Key {
    (lease.upstream.id, lease.server.number)
}

/// Has `act` do something with the connections to a server. Nothing is kept of one to which there are none.
fn with_shared<R>(key: Key, act: impl FnOnce(&mut Shared) -> R) -> R {
    SHARED.with_borrow_mut(|all| {
        let shared = all.entry(key).or_default();
        let outcome = act(shared);
        if shared.open.is_empty() && shared.opening.is_none() {
            all.remove(&key);
        }
        outcome
    })
}

impl Opening {
    async fn wait(&self) -> Outcome {
        poll_fn(|cx| {
            if let Some(outcome) = self.outcome.get() {
                return Poll::Ready(outcome);
            }
            self.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

/// Lets others wait for a connection that is being opened, until this is dropped.
struct Guard<'l> {
    lease: &'l Lease,
    opening: Rc<Opening>,
}

impl<'l> Guard<'l> {
    fn begin(lease: &'l Lease) -> Self {
        let opening = Rc::<Opening>::default();
        with_shared(key_of(lease), |shared| shared.opening = Some(opening.clone()));
        Self { lease, opening }
    }

    fn end(self, outcome: Outcome) {
        self.opening.outcome.set(Some(outcome));
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.opening.outcome.get().is_none() {
            self.opening.outcome.set(Some(Outcome::GivenUp));
        }
        with_shared(key_of(self.lease), |shared| {
            shared.opening.take_if(|opening| Rc::ptr_eq(opening, &self.opening));
        });
        self.opening.waiting.borrow_mut().drain(..).for_each(Waker::wake);
    }
}

/// How often it is looked whether the server of a connection was found down or was ejected.
const LOOK_AT_SERVER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use thruway_client::RequestToSend;
    use thruway_http1::BodyLength;
    use thruway_message::Method;
    use tokio::task::{LocalSet, yield_now};
    use tokio::time::timeout;

    use super::super::{RequestKey, Upstream, UpstreamConfig};
    use super::*;

    const PATIENCE: Duration = Duration::from_mins(1);

    /// Once such connections were kept until one of HTTP/1.1 was released.
    #[tokio::test]
    async fn nothing_is_kept_of_a_connection_that_has_ended() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let upstream = Arc::new(Upstream::new(UpstreamConfig::new("a", [address.into()])));
        let connected = async {
            let lease = upstream.lease(&RequestKey::default(), &[], &Clock::system(), None).await.unwrap();
            let shared = share(&lease, &Http2Config::default(), None).await.unwrap();
            assert!(!shared.is_reused());
            let again = share(&lease, &Http2Config::default(), None).await.unwrap();
            assert_eq!((again.is_reused(), again.number()), (true, shared.number()));
            assert_eq!(SHARED.with_borrow(HashMap::len), 1);
            drop(listener.accept().unwrap());
            while SHARED.with_borrow(HashMap::len) > 0 {
                yield_now().await;
            }
        };
        timeout(PATIENCE, LocalSet::new().run_until(connected)).await.expect("it should be forgotten by now");
    }

    /// Once requests went on being sent on a connection to a server that was found down, for twenty seconds after it was back elsewhere.
    #[tokio::test]
    async fn a_connection_from_before_a_server_was_down_gets_no_new_requests() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let upstream = Arc::new(Upstream::new(UpstreamConfig::new("a", [address.into()])));
        let connected = async {
            let lease = upstream.lease(&RequestKey::default(), &[], &Clock::system(), None).await.unwrap();
            let before = share(&lease, &Http2Config::default(), None).await.unwrap();
            lease.server.set_down(true);
            lease.server.set_down(false);
            let after = share(&lease, &Http2Config::default(), None).await.unwrap();
            assert!(!after.is_reused() && after.number() > before.number());
            let again = share(&lease, &Http2Config::default(), None).await.unwrap();
            assert_eq!((again.is_reused(), again.number()), (true, after.number()));
        };
        timeout(PATIENCE, LocalSet::new().run_until(connected)).await.unwrap();
    }

    /// Otherwise nobody would be answered until the last of those that are on it has ended.
    #[tokio::test]
    async fn where_there_may_be_no_other_connection_it_gets_them_as_long_as_it_is_used() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let http2 = Http2Config::default();
        let config = UpstreamConfig { http2: Some(http2), ..UpstreamConfig::new("a", [address.into()]) };
        let upstream = Arc::new(Upstream::new(UpstreamConfig { connections_max: 1, ..config }));
        let connected = async {
            let lease = upstream.lease(&RequestKey::default(), &[], &Clock::system(), None).await.unwrap();
            let before = share(&lease, &http2, None).await.unwrap();
            let number = before.number();
            let request = RequestToSend::new(Method::Get, BodyLength::NONE);
            let head = |head: &mut Vec<u8>| head.extend_from_slice(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let exchange = before.start(request, Duration::ZERO, head).unwrap();
            lease.server.set_down(true);
            let again = share(&lease, &http2, None).await.unwrap();
            assert_eq!(again.number(), number);
            drop((exchange, again));
            let after = share(&lease, &http2, None).await.unwrap();
            assert!(!after.is_reused() && after.number() > number);
        };
        timeout(PATIENCE, LocalSet::new().run_until(connected)).await.unwrap();
    }
}
