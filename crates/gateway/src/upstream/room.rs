//! How many connections to the servers of an upstream there are at a time, where that is limited.
//!
//! Each worker has its share of what there may be: a connection that becomes free is used by who waits for it beside it, and nobody waits for
//! what lies idle with another worker, or has it closed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thruway_client::{ConnectError, Connection};
use thruway_net::{Clock, Worker};

use super::connections::{acquire, close_oldest};
use super::queue::Queue;
use super::waiting::WaitingCounts;
use super::{Lease, Ongoing, Unavailable, Upstream};
use crate::Failure;

/// The connections of all workers; nothing as long as nobody counts them.
#[derive(Debug, Default)]
pub(super) struct Connections(OnceLock<Box<[Share]>>);

/// Those of one worker, and who waits for one. Other workers only look.
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
    pub(super) fn waiting(&self) -> usize {
        self.shares().iter().map(|share| share.queue.len()).sum()
    }

    /// How many have waited so far, and for how long.
    pub(super) fn waiting_counts(&self) -> WaitingCounts {
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

impl Upstream {
    /// How many connections to its servers are open, if there is a [limit](super::UpstreamConfig::connections_max) to that.
    pub fn open_connections(&self) -> usize {
        self.ongoing.connections.open()
    }

    /// Whether there is a limit to connections.
    #[inline]
    pub(crate) const fn limits_connections(&self) -> bool {
        self.config.connections_max > 0
    }

    /// A connection of this worker waits to be used again.
    #[inline]
    pub(super) fn connection_is_free(&self) {
        if self.limits_connections() {
            self.ongoing.connections.share().0.queue.room_was_made();
        }
    }

    /// Counts one more connection, if this worker has one left. One that waits to be used again goes for it.
    fn permit(&self) -> Option<Permit> {
        let connections = &self.ongoing.connections;
        let (share, worker) = connections.share();
        let most = share_of(self.config.connections_max, connections.shares().len(), worker);
        let is_full = || share.open.load(Ordering::Relaxed) >= most;
        // Of those that a config of before has let there be, several may have to go.
        while is_full() {
            if !close_oldest(&self.ongoing) {
                return None;
            }
        }
        share.open.fetch_add(1, Ordering::Relaxed);
        Some(Permit { ongoing: self.ongoing.clone(), worker })
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
    /// A connection to the server that was used before, if one waits and it need not be new; otherwise there may be one more now, and is none
    /// yet. As long as there is neither, it is waited for, but no longer than `until`.
    ///
    /// # Errors
    /// Too many wait already, or there is neither in time.
    pub(crate) async fn acquire_within_limit(
        &self,
        clock: &Clock,
        until: Option<Duration>,
        is_new: bool,
    ) -> Result<Option<Connection>, Failure> {
        let waiting = || if is_new { None } else { acquire(self, clock.now()) };
        let attempt = || match waiting() {
            Some(connection) => Some(Ok(connection)),
            None => self.upstream.permit().map(Err),
        };
        match self.upstream.pass_connections(clock, until, attempt).await? {
            Ok(connection) => Ok(Some(connection)),
            Err(permit) => {
                self.permit.replace(Some(permit));
                Ok(None)
            }
        }
    }

    /// Permission to connect, which is waited for if there is none yet; `None` where there is no limit.
    pub(super) async fn permit_to_connect(&self) -> Result<Option<Permit>, ConnectError> {
        if !self.upstream.limits_connections() {
            return Ok(None);
        }
        let permitted = self.permit.take();
        if permitted.is_some() {
            return Ok(permitted);
        }
        let clock = Worker::current().map_or_else(Clock::system, |worker| worker.clock().clone());
        let permit = self.upstream.pass_connections(&clock, None, || self.upstream.permit()).await;
        permit.map(Some).map_err(|_| ConnectError::NoRoom)
    }
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
    use super::*;

    #[test]
    fn shares_are_all_that_there_may_be_and_none_is_empty() {
        for (all, workers) in [(2, 2), (7, 3), (100, 8)] {
            let shares = (0..workers).map(|worker| share_of(all, workers, worker));
            assert_eq!(shares.sum::<usize>(), all, "{all} for {workers}");
        }
        assert_eq!([0, 1, 2].map(|worker| share_of(1, 3, worker)), [1, 1, 1]);
    }
}
