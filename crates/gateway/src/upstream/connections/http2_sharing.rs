//! The HTTP/2 connections of one worker. Several requests share each connection, up to the number of streams
//! that the server allows.
//!
//! After a failed health check or an ejection, another machine may have taken over the address of the server.
//! Therefore, existing connections to the server get no new requests. The gateway sends a ping on each
//! existing connection, to find out whether the server still exists.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use thruway_client::http2::{Connection, Driver, PingRequest};
use thruway_net::{Worker, spawn};
use tokio::time::sleep;

use crate::Failure;
use crate::upstream::server::RetainedState;

/// State of a worker: its HTTP/2 connections.
#[derive(Default)]
struct SharedConnections {
    servers: RefCell<HashMap<SharedKey, Shared>>,
    /// Sequence number of the most recently opened connection.
    last: Cell<u64>,
}

/// The id of an upstream, and the id of one of its servers (`Server::number`).
pub(crate) type SharedKey = (u64, usize);

/// The HTTP/2 connections to one server.
#[derive(Default)]
struct Shared {
    /// Open connections, oldest first.
    open: Vec<Open>,
    /// The connection that is being opened, if any.
    opening: Option<Rc<Opening>>,
}

/// An open HTTP/2 connection.
struct Open {
    number: u64,
    connection: Connection,
    /// Id of the upstream's `Connections`. A reload of the config does not change this id.
    connections: u64,
    driving: Rc<Driving>,
    /// Health epoch of the server when the connection was opened.
    epoch: usize,
}

/// The driver task of an open connection.
struct Driving {
    driver: RefCell<Option<Driver>>,
    task: RefCell<Waker>,
}

/// A connection that is being opened, and the requests that wait for it.
#[derive(Default)]
pub(crate) struct Opening {
    outcome: Cell<Option<Outcome>>,
    waiting: RefCell<Vec<Waker>>,
}

/// Result of opening a shared connection.
#[derive(Clone, Copy)]
pub(crate) enum Outcome {
    Open,
    Failed(Failure),
    /// The request that was opening the connection was canceled.
    GivenUp,
}

/// An HTTP/2 connection that several requests may share.
pub(crate) struct SharedConnection {
    pub(crate) connection: Connection,
    /// Sequence number of the connection. Newer connections have higher numbers.
    pub(crate) number: u64,
    /// `true` if an earlier request has opened the connection.
    pub(crate) is_reused: bool,
}

/// Conditions that a shared connection must meet for a request.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) key: SharedKey,
    /// Current health epoch of the server. Connections from earlier epochs get no requests.
    pub(crate) epoch: usize,
    /// `true` if the request may also share a connection from an earlier epoch, as long as other requests use
    /// the connection. With a connection limit, such sharing is necessary, because the limit may allow no
    /// other connection.
    pub(crate) keeps_used: bool,
    /// `true` if the request should wait for a connection that is being opened.
    pub(crate) awaits_opening: bool,
}

/// Returns the sequence number for a new connection.
pub(crate) fn next_number(worker: &Worker) -> u64 {
    let last = &worker.state::<SharedConnections>().last;
    last.set(last.get() + 1);
    last.get()
}

/// Makes a connection available to other requests until the connection ends. `connections` is the id of the
/// upstream's `Connections`.
pub(crate) fn keep(
    worker: &Rc<Worker>,
    key: SharedKey,
    connections: u64,
    state: &Arc<RetainedState>,
    shared: &SharedConnection,
    driver: Driver,
) {
    let number = shared.number;
    let driving = Rc::new(Driving { driver: RefCell::new(Some(driver)), task: Waker::noop().clone().into() });
    let (epoch, connection) = (state.health.epoch(), shared.connection.clone());
    let open = Open { number, connection, connections, driving: driving.clone(), epoch };
    with_shared(worker, key, |shared| shared.open.push(open));
    spawn(ping_after_epoch(state.clone(), epoch, shared.connection.ping_request()));
    // The worker owns the connection. Therefore, the task of the connection must not keep the worker alive.
    let worker = Rc::downgrade(worker);
    spawn(async move {
        driving.run().await;
        if let Some(worker) = worker.upgrade() {
            with_shared(&worker, key, |shared| shared.open.retain(|open| open.number != number));
        }
    });
}

/// Waits for a failed health check or an ejection of the server, and then sends a ping on the connection.
/// The wait ends if the connection ends.
async fn ping_after_epoch(state: Arc<RetainedState>, epoch: usize, ping_request: PingRequest) {
    while !ping_request.is_over() {
        if state.health.epoch() != epoch {
            return ping_request.ask();
        }
        sleep(EPOCH_CHECK_INTERVAL).await;
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

/// Closes one connection of this worker to an upstream: the oldest connection that no request uses. Returns
/// `false` if there is no such connection.
pub(crate) fn close_idle(worker: &Worker, connections: u64) -> bool {
    let mut servers = worker.state::<SharedConnections>().servers.borrow_mut();
    let open = servers.values_mut().flat_map(|shared| &mut shared.open);
    let of_upstream = open.filter(|open| open.connections == connections);
    let idle = of_upstream.filter_map(|open| open.is_idle().then_some(&*open));
    let Some(first) = idle.min_by_key(|open| open.number) else { return false };
    first.driving.end();
    true
}

impl Open {
    fn has_capacity(&mut self) -> bool {
        self.connection.has_capacity()
    }

    /// Returns `true` if the connection may get new requests. The server must have been healthy since the
    /// connection was opened. With `keeps_used`, a connection that other requests use may also get new
    /// requests.
    fn is_trusted(&self, wanted: Wanted) -> bool {
        self.epoch == wanted.epoch || (wanted.keeps_used && !self.connection.is_idle())
    }

    /// Returns `true` if the connection is open and no request uses it.
    fn is_idle(&mut self) -> bool {
        !self.connection.is_over() && self.connection.is_idle()
    }
}

/// Returns the ids (`Server::number`) of the servers to which this worker has connections with free
/// streams.
pub(crate) fn with_free_streams(worker: &Worker, upstream: u64) -> Vec<usize> {
    let mut servers = worker.state::<SharedConnections>().servers.borrow_mut();
    let of_upstream = servers.iter_mut().filter(|((id, _), _)| *id == upstream);
    let with_free_streams = of_upstream.filter_map(|((_, server), shared)| {
        shared.open.iter_mut().any(Open::has_capacity).then_some(*server)
    });
    with_free_streams.collect()
}

/// Returns a connection that has a free stream and is newer than the connection `later_than`. If there is no
/// such connection, returns a connection that is being opened, if any.
pub(crate) fn find(
    worker: &Worker,
    wanted: Wanted,
    later_than: Option<u64>,
) -> Option<Result<(u64, Connection), Rc<Opening>>> {
    with_shared(worker, wanted.key, |shared| {
        shared.open.retain_mut(|open| !open.connection.is_over() && open.is_trusted(wanted));
        let mut later = shared.open.iter_mut().filter(|open| Some(open.number) > later_than);
        let open = later.find_map(|open| open.has_capacity().then(|| (open.number, open.connection.clone())));
        open.map(Ok).or_else(|| shared.opening.clone().filter(|_| wanted.awaits_opening).map(Err))
    })
}

/// Calls `act` with the HTTP/2 connections to a server. Afterwards, removes the entry of the server if the
/// server has no connections.
fn with_shared<R>(worker: &Worker, key: SharedKey, act: impl FnOnce(&mut Shared) -> R) -> R {
    let mut servers = worker.state::<SharedConnections>().servers.borrow_mut();
    let shared = servers.entry(key).or_default();
    let outcome = act(shared);
    if shared.open.is_empty() && shared.opening.is_none() {
        servers.remove(&key);
    }
    outcome
}

impl Opening {
    pub(crate) async fn wait(&self) -> Outcome {
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

/// A guard for the entry of a connection that is being opened. Dropping the guard removes the entry and
/// wakes the requests that wait for the connection.
pub(crate) struct OpeningGuard<'w> {
    worker: &'w Worker,
    key: SharedKey,
    opening: Rc<Opening>,
}

impl<'w> OpeningGuard<'w> {
    pub(crate) fn begin(worker: &'w Worker, key: SharedKey) -> Self {
        let opening = Rc::<Opening>::default();
        with_shared(worker, key, |shared| shared.opening = Some(opening.clone()));
        Self { worker, key, opening }
    }

    pub(crate) fn end(self, outcome: Outcome) {
        self.opening.outcome.set(Some(outcome));
    }
}

impl Drop for OpeningGuard<'_> {
    fn drop(&mut self) {
        if self.opening.outcome.get().is_none() {
            self.opening.outcome.set(Some(Outcome::GivenUp));
        }
        with_shared(self.worker, self.key, |shared| {
            shared.opening.take_if(|opening| Rc::ptr_eq(opening, &self.opening));
        });
        self.opening.waiting.borrow_mut().drain(..).for_each(Waker::wake);
    }
}

/// Returns the number of servers to which a worker has HTTP/2 connections.
#[cfg(test)]
pub(crate) fn count_for_test(worker: &Worker) -> usize {
    worker.state::<SharedConnections>().servers.borrow().len()
}

/// Interval for checking the health epoch of a connection's server.
const EPOCH_CHECK_INTERVAL: Duration = Duration::from_secs(1);
