//! The connections of one worker to servers that speak HTTP/2: each is shared by as many requests as its server allows.
//!
//! Where servers choose the version, one that has chosen HTTP/1.1 last is expected to do so again: nobody waits for a connection that could not
//! be shared. Whoever is mistaken in what a server will choose takes what has come of it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use thruway_client::http2::{Connection, Driver, Http2Config};
use thruway_client::{self as client, UpstreamStream};
use thruway_net::spawn;

use super::condition::Chosen;
use super::connections::connect_secured;
use super::{Acquired, Lease};
use crate::Failure;

/// The connections to one server.
#[derive(Default)]
struct Shared {
    /// In the order in which they were opened, by their numbers.
    open: Vec<(u64, Connection)>,
    /// Somebody is about to open one.
    opening: Option<Rc<Opening>>,
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
/// it can be one of HTTP/1.1, for this request alone.
pub(crate) async fn share(
    lease: &Lease,
    http2: &Http2Config,
    later_than: Option<u64>,
) -> Result<Acquired, NotOpened> {
    if lease.proxied.is_some() {
        return Ok(match open(lease, http2).await? {
            Opened::Http1(connection) => Acquired::Http1(connection),
            Opened::Http2(of_one_client, driver) => {
                spawn(driver);
                Acquired::Http2(of_one_client)
            }
        });
    }
    while let Some(found) = find(lease, later_than) {
        match found {
            Ok((number, connection)) => {
                let shared = SharedConnection { connection, number, is_reused: true };
                return Ok(Acquired::Http2(Box::new(shared)));
            }
            Err(opening) => {
                if let Outcome::Failed(failure) = opening.wait().await {
                    return Err(NotOpened { failure, is_counted: true });
                }
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
            keep(key_of(lease), &shared, driver);
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
    let connected = Connection::new(stream, &config.exchange, http2).await;
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
fn keep(key: Key, shared: &SharedConnection, driver: Driver) {
    let (number, connection) = (shared.number, shared.connection.clone());
    with_shared(key, |shared| shared.open.push((number, connection)));
    spawn(async move {
        driver.await;
        with_shared(key, |shared| shared.open.retain(|(of, _)| *of != number));
    });
}

/// A connection with room that was opened later than the one of this number, or what to wait for; `None` if there is neither.
fn find(lease: &Lease, later_than: Option<u64>) -> Option<Result<(u64, Connection), Rc<Opening>>> {
    with_shared(key_of(lease), |shared| {
        shared.open.retain_mut(|(_, connection)| !connection.is_over());
        let mut later = shared.open.iter_mut().filter(|(number, _)| Some(*number) > later_than);
        let open = later.find_map(|(number, open)| open.has_room().then(|| (*number, open.clone())));
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::time::Duration;

    use thruway_net::Clock;
    use tokio::task::{LocalSet, yield_now};
    use tokio::time::timeout;

    use super::super::{RequestKey, Upstream, UpstreamConfig};
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

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
}
