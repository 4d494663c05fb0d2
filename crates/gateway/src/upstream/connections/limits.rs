//! How many connections to the servers of an upstream there are at a time, where that is limited.
//!
//! Each worker has its share of what there may be: a connection that becomes free is used by who waits for it beside it, and nobody waits for
//! what lies idle with another worker, or has it closed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thruway_client::{ConnectError, Connection};
use thruway_net::{Clock, Worker};

use crate::Failure;
use crate::upstream::connections::pool::{acquire, close_oldest};
use crate::upstream::connections::queue::Queue;
use crate::upstream::connections::shared::{close_idle, may_share, with_room};
use crate::upstream::connections::waiting::WaitingCounts;
use crate::upstream::health::ejection::{Admission, milliseconds};
use crate::upstream::{Lease, Ongoing, Server, Unavailable, Upstream};

/// The connections of all workers; nothing as long as there were none.
#[derive(Debug, Default)]
pub(crate) struct Connections(OnceLock<Box<[Share]>>);

/// Those of one worker, and who waits for one, or for a stream of one. Other workers only look.
#[derive(Debug, Default)]
struct Share {
    open: AtomicUsize,
    queue: Queue,
}

/// A connection that is open or may be opened, until this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    ongoing: Arc<Ongoing>,
    worker: usize,
}

impl Connections {
    /// Those of this worker, and their place.
    fn share(&self) -> (&Share, usize) {
        let worker = Worker::current();
        let shares = self.0.get_or_init(|| {
            let workers = worker.as_ref().map_or(1, |worker| worker.workers());
            (0..workers.max(1)).map(|_| Share::default()).collect()
        });
        let place = worker.map_or(0, |worker| worker.index()) % shares.len();
        (&shares[place], place)
    }

    fn shares(&self) -> &[Share] {
        self.0.get().map_or(&[], |shares| shares)
    }

    /// How many requests wait for one.
    pub(crate) fn waiting(&self) -> usize {
        self.shares().iter().map(|share| share.queue.len()).sum()
    }

    /// How many have waited so far, and for how long.
    pub(crate) fn waiting_counts(&self) -> WaitingCounts {
        let counts = self.shares().iter().map(|share| share.queue.counts());
        counts.fold(WaitingCounts::default(), WaitingCounts::plus)
    }

    fn open(&self) -> usize {
        self.shares().iter().map(|share| share.open.load(Ordering::Relaxed)).sum()
    }
}

/// How many of `all` are for this of so many workers: at least one.
fn share_of(all: usize, workers: usize, worker: usize) -> usize {
    (all / workers + usize::from(worker < all % workers)).max(1)
}

/// What a request does that needs a connection.
enum Way {
    /// It takes one that has waited.
    Again(Connection),
    /// It shares one of its server.
    Share,
    /// It opens one.
    Open(Permit),
    /// It shares one of this server, which counts it already.
    Elsewhere(Arc<Server>, Admission),
}

impl Upstream {
    /// How many connections to its servers are open, checks aside.
    pub fn open_connections(&self) -> usize {
        self.ongoing.connections.open()
    }

    /// Whether there is a limit to connections.
    #[inline]
    pub(crate) const fn limits_connections(&self) -> bool {
        self.config.connections_max > 0
    }

    /// A connection of this worker waits to be used again, or has a stream for another request. Those of a config without a limit may be what
    /// is waited for where the next one has a limit.
    #[inline]
    pub(crate) fn connection_is_free(&self) {
        if self.limits_connections() || self.is_replaced() {
            self.ongoing.connections.share().0.queue.room_was_made();
        }
    }

    /// Counts one more connection, if this worker has one left. One that nobody uses goes for it.
    fn permit(&self) -> Option<Permit> {
        let connections = &self.ongoing.connections;
        let (share, worker) = connections.share();
        let most = share_of(self.config.connections_max, connections.shares().len(), worker);
        let is_full = || share.open.load(Ordering::Relaxed) >= most;
        // Of those that a config of before has let there be, several may have to go.
        while is_full() {
            if !close_oldest(&self.ongoing) && !close_idle(&self.ongoing) {
                return None;
            }
        }
        Some(self.count_connection())
    }

    /// Counts one more connection, however many there are.
    fn count_connection(&self) -> Permit {
        let (share, worker) = self.ongoing.connections.share();
        share.open.fetch_add(1, Ordering::Relaxed);
        Permit { ongoing: self.ongoing.clone(), worker }
    }

    /// What `attempt` comes to, as soon as there is a connection.
    async fn pass_connections<T>(
        &self,
        clock: &Clock,
        until: Option<Duration>,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Result<T, Failure> {
        let queue = &self.ongoing.connections.share().0.queue;
        queue.pass(self.config.queue, false, clock, until, || attempt().ok_or(Unavailable::Busy)).await
    }
}

impl Lease {
    /// A connection to the server that was used before, if one waits and it need not be new. Otherwise there is one to
    /// share, or there may be one more now and is none yet; or another server than those `tried` has one to share, and is the leased one from
    /// here on. As long as there is none of it, it is waited for, but no longer than `until`.
    ///
    /// # Errors
    /// Too many wait already, or there is no room in time.
    pub(crate) async fn acquire_within_limit(
        &mut self,
        clock: &Clock,
        until: Option<Duration>,
        is_new: bool,
        tried: &[usize],
    ) -> Result<Option<Connection>, Failure> {
        let way = || self.way(clock, is_new, tried);
        match self.upstream.pass_connections(clock, until, way).await? {
            Way::Again(connection) => return Ok(Some(connection)),
            Way::Open(permit) => drop(self.permit.replace(Some(permit))),
            Way::Share => self.upstream.connection_is_free(),
            Way::Elsewhere(server, admission) => {
                self.move_to(server, admission);
                self.upstream.connection_is_free();
            }
        }
        Ok(None)
    }

    /// How there is a connection now. Whoever shares one tells who waits behind: there may be room for more.
    fn way(&self, clock: &Clock, is_new: bool, tried: &[usize]) -> Option<Way> {
        let waiting = if is_new { None } else { acquire(self, clock.now()) };
        if let Some(connection) = waiting {
            return Some(Way::Again(connection));
        }
        if may_share(self) {
            return Some(Way::Share);
        }
        self.upstream.permit().map(Way::Open).or_else(|| self.elsewhere(clock, tried))
    }

    /// Another server that has a stream, if any will do: rather than waiting for a connection to this one, while others are used all the time.
    fn elsewhere(&self, clock: &Clock, tried: &[usize]) -> Option<Way> {
        if !self.shares_connections() {
            return None;
        }
        let (numbers, now) = (with_room(self), milliseconds(clock.now()));
        let servers = self.upstream.servers.load();
        let may_be = |server: &&Arc<Server>| {
            numbers.contains(&server.number)
                && !tried.contains(&server.number)
                && server.is_backup == self.server.is_backup
                && server.takes_new_clients()
                && server.is_available(now)
        };
        servers.list.iter().filter(may_be).find_map(|server| match server.begin(now) {
            Admission::Refused => None,
            admission => Some(Way::Elsewhere(server.clone(), admission)),
        })
    }

    /// Returns `true` if other requests may use its HTTP/2 connection. They may not if the server knows by a
    /// header of the PROXY protocol whose connection it is, or if the pool keeps no connections.
    pub(crate) fn shares_connections(&self) -> bool {
        let pool = &self.upstream.config.pool;
        self.proxied.is_none() && pool.idle_per_address_max > 0 && pool.idle_max > 0
    }

    /// Whether a connection may be opened for it.
    pub(crate) fn may_connect(&self) -> bool {
        !self.upstream.limits_connections() || self.permit.borrow().is_some()
    }

    /// Waits until there is a connection to share, or one may be opened.
    pub(crate) async fn wait_to_share(&self) -> Result<(), Failure> {
        let attempt = || if may_share(self) { Some(None) } else { self.upstream.permit().map(Some) };
        let permit = self.upstream.pass_connections(&clock(), None, attempt).await?;
        if permit.is_none() {
            self.upstream.connection_is_free();
        }
        self.permit.replace(permit);
        Ok(())
    }

    /// Permission to connect, which is waited for if there is none yet and there is a limit.
    pub(crate) async fn permit_to_connect(&self) -> Result<Permit, ConnectError> {
        if let Some(permit) = self.permit.take() {
            return Ok(permit);
        }
        if !self.upstream.limits_connections() {
            return Ok(self.upstream.count_connection());
        }
        let permit = self.upstream.pass_connections(&clock(), None, || self.upstream.permit()).await;
        permit.map_err(|_| ConnectError::NoRoom)
    }
}

/// That of this worker.
fn clock() -> Clock {
    Worker::current().map_or_else(Clock::system, |worker| worker.clock().clone())
}

impl Drop for Permit {
    fn drop(&mut self) {
        let share = &self.ongoing.connections.shares()[self.worker];
        share.open.fetch_sub(1, Ordering::Relaxed);
        share.queue.room_was_made();
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use tokio::task::LocalSet;

    use super::*;
    use crate::upstream::connections::pool::connect;
    use crate::upstream::{RequestKey, UpstreamConfig};

    /// Once only those were counted that were opened under a limit.
    #[tokio::test]
    async fn connections_that_a_config_without_a_limit_has_opened_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let config = UpstreamConfig::new("a", [listener.local_addr().unwrap().into()]);
        let before = Arc::new(Upstream::new(config.clone()));
        let connected = async {
            let lease = before.lease(&RequestKey::default(), &[], &Clock::system(), None).await.unwrap();
            let stream = connect(&lease).await.unwrap();
            let after = Upstream::after(UpstreamConfig { connections_max: 1, ..config }, &before);
            assert!(after.permit().is_none());
            drop(stream);
            assert!(after.permit().is_some());
        };
        LocalSet::new().run_until(connected).await;
    }

    #[test]
    fn shares_are_all_that_there_may_be_and_none_is_empty() {
        for (all, workers) in [(2, 2), (7, 3), (100, 8)] {
            let shares = (0..workers).map(|worker| share_of(all, workers, worker));
            assert_eq!(shares.sum::<usize>(), all, "{all} for {workers}");
        }
        assert_eq!([0, 1, 2].map(|worker| share_of(1, 3, worker)), [1, 1, 1]);
    }
}
