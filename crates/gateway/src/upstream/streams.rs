//! The connections of one worker to servers that speak HTTP/2: each is shared by as many requests as its server allows.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use thruway_client::http2::{Connection, Http2Config};
use thruway_net::spawn;

use super::Lease;
use super::connections::connect_secured;
use crate::Failure;

/// The connections to one server.
#[derive(Default)]
struct Shared {
    open: Vec<Connection>,
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

thread_local! {
    /// By the ids of upstreams and the numbers of their servers.
    static SHARED: RefCell<HashMap<(u64, usize), Shared>> = RefCell::default();
}

/// A connection to the leased server with room for one more exchange, and whether it was there before. One that `is_fresh` was not.
pub(crate) async fn share(
    lease: &Lease,
    http2: &Http2Config,
    is_fresh: bool,
) -> Result<(Connection, bool), (Failure, bool)> {
    let is_shared = lease.proxied.is_none();
    if is_shared && !is_fresh {
        while let Some(found) = find(lease) {
            match found {
                Ok(connection) => return Ok((connection, true)),
                Err(opening) => {
                    if let Outcome::Failed(failure) = opening.wait().await {
                        return Err((failure, false));
                    }
                }
            }
        }
    }
    let guard = Guard::begin(lease);
    let opened = open(lease, http2).await;
    if let (Ok(connection), true) = (&opened, is_shared) {
        with_shared(lease, |shared| shared.open.push(connection.clone()));
    }
    guard.end(opened.as_ref().map_or_else(|failure| Outcome::Failed(*failure), |_| Outcome::Open));
    opened.map(|connection| (connection, false)).map_err(|failure| (failure, false))
}

/// A new connection, which drives itself.
pub(super) async fn open(lease: &Lease, http2: &Http2Config) -> Result<Connection, Failure> {
    let stream = connect_secured(lease).await?;
    let (connection, driver) = Connection::new(stream, &lease.upstream.config.exchange, http2).await?;
    spawn(driver);
    Ok(connection)
}

/// A connection with room, or what to wait for; `None` if there is neither.
fn find(lease: &Lease) -> Option<Result<Connection, Rc<Opening>>> {
    with_shared(lease, |shared| {
        shared.open.retain_mut(|connection| !connection.is_over());
        let open =
            shared.open.iter_mut().find_map(|connection| connection.has_room().then(|| connection.clone()));
        open.map(Ok).or_else(|| shared.opening.clone().map(Err))
    })
}

fn with_shared<R>(lease: &Lease, act: impl FnOnce(&mut Shared) -> R) -> R {
    let key = (lease.upstream.id, lease.server.number);
    SHARED.with_borrow_mut(|all| act(all.entry(key).or_default()))
}

/// Forgets servers to which there is no connection any more, also those of upstreams that are there no longer.
pub(super) fn sweep() {
    SHARED.with_borrow_mut(|all| {
        all.retain(|_, shared| {
            shared.open.retain_mut(|connection| !connection.is_over());
            !shared.open.is_empty() || shared.opening.is_some()
        });
    });
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
        with_shared(lease, |shared| shared.opening = Some(opening.clone()));
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
        with_shared(self.lease, |shared| {
            shared.opening.take_if(|opening| Rc::ptr_eq(opening, &self.opening));
        });
        self.opening.waiting.borrow_mut().drain(..).for_each(Waker::wake);
    }
}
