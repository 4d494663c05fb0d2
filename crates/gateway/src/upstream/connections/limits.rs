//! Limits for the requests and connections of an upstream, and the requests that wait because of these
//! limits.
//!
//! Each worker has a share of the allowed connections. A request uses only the connections of its own worker.
//! It cannot use or close an idle connection of another worker.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thruway_net::Worker;

use super::http2_sharing::close_idle;
use super::pool::{IdleCounts, close_oldest};
use super::queue::{Queue, QueueConfig, Unavailable, WaitingCounts};
use crate::Failure;

/// Counters and queues for the connections of an upstream. After a reload, the new upstream shares the
/// counters and queues of the previous upstream.
#[derive(Debug)]
pub(crate) struct Connections {
    /// Id that identifies the upstream's connections in the state of each worker. A reload of the config does
    /// not change this id.
    pub(crate) id: u64,
    /// Requests that wait for a server.
    pub(crate) requests: Queue,
    pub(crate) idle: IdleCounts,
    /// Number of requests in flight at all servers. The gateway updates this field only if the number of
    /// requests is limited.
    in_flight: AtomicUsize,
    /// The shares of the workers. This field is empty until the first connection is opened.
    shares: OnceLock<Box<[Share]>>,
}

/// Counter of the open connections of one worker, and the requests that wait for a connection or a stream.
/// Other workers only read the counter.
#[derive(Debug, Default)]
struct Share {
    open: AtomicUsize,
    queue: Queue,
}

/// A permit for a connection that is open or may be opened. After the permit is dropped, another connection
/// may be opened.
#[derive(Debug)]
pub(crate) struct Permit {
    connections: Arc<Connections>,
    worker: usize,
}

impl Default for Connections {
    fn default() -> Self {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        Self {
            id: LAST_ID.fetch_add(1, Ordering::Relaxed),
            requests: Queue::default(),
            idle: IdleCounts::default(),
            in_flight: AtomicUsize::new(0),
            shares: OnceLock::new(),
        }
    }
}

impl Connections {
    /// Counts a request as in flight until [`end_request`](Self::end_request) is called. Returns `false` if
    /// `requests_max` requests are already in flight. The value 0 means no limit.
    #[inline]
    pub(crate) fn begin_request(&self, requests_max: usize) -> bool {
        if requests_max == 0 {
            return true;
        }
        // The counter has the ordering `SeqCst`, like the counters of the queue, so that a waiting request
        // cannot miss free capacity.
        let has_capacity = self.in_flight.fetch_add(1, Ordering::SeqCst) < requests_max;
        if !has_capacity {
            self.end_request(requests_max);
        }
        has_capacity
    }

    /// Ends a request that was counted with the limit `requests_max`.
    #[inline]
    pub(crate) fn end_request(&self, requests_max: usize) {
        if requests_max > 0 {
            self.in_flight.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Returns the share of `worker`, and the index of this share.
    fn share(&self, worker: &Worker) -> (&Share, usize) {
        let shares =
            self.shares.get_or_init(|| (0..worker.workers().max(1)).map(|_| Share::default()).collect());
        let place = worker.index() % shares.len();
        (&shares[place], place)
    }

    fn shares(&self) -> &[Share] {
        self.shares.get().map_or(&[], |shares| shares)
    }

    /// Returns the number of requests that wait for a server or a connection.
    pub(crate) fn waiting(&self) -> usize {
        self.requests.len() + self.shares().iter().map(|share| share.queue.len()).sum::<usize>()
    }

    /// Returns the number of requests that have waited, and a histogram of their waiting times.
    pub(crate) fn waiting_counts(&self) -> WaitingCounts {
        let counts = self.shares().iter().map(|share| share.queue.counts());
        counts.fold(self.requests.counts(), WaitingCounts::plus)
    }

    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.shares().iter().map(|share| share.open.load(Ordering::Relaxed)).sum()
    }

    /// Notifies waiting requests that a connection of `worker` is idle or has a free stream.
    pub(crate) fn notify_free(&self, worker: &Worker) {
        self.share(worker).0.queue.notify_capacity();
    }

    /// Returns a permit if this worker has fewer connections than its share of `connections_max`. If
    /// necessary, closes idle connections first.
    pub(crate) fn permit(self: &Arc<Self>, worker: &Worker, connections_max: usize) -> Option<Permit> {
        let (share, place) = self.share(worker);
        let most = share_of(connections_max, self.shares().len(), place);
        let is_full = || share.open.load(Ordering::Relaxed) >= most;
        // An earlier config may have allowed more connections, so several connections may have to close.
        while is_full() {
            if !close_oldest(worker, self.id) && !close_idle(worker, self.id) {
                return None;
            }
        }
        Some(self.count(worker))
    }

    /// Counts a new connection of `worker`, without checking the limit.
    pub(crate) fn count(self: &Arc<Self>, worker: &Worker) -> Permit {
        let (share, worker) = self.share(worker);
        share.open.fetch_add(1, Ordering::Relaxed);
        Permit { connections: self.clone(), worker }
    }

    /// Calls `attempt` until it returns a result, and returns this result. After each `None`, waits for a
    /// connection.
    ///
    /// # Errors
    /// Returns an error if too many requests already wait, or if the waiting time is over.
    pub(crate) async fn wait_for_connection<T>(
        &self,
        worker: &Worker,
        config: QueueConfig,
        until: Option<Duration>,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Result<T, Failure> {
        let queue = &self.share(worker).0.queue;
        queue.pass(config, false, worker.clock(), until, || attempt().ok_or(Unavailable::Busy)).await
    }
}

/// Divides `all` connections among `workers` workers, and returns the share of the worker with the index
/// `worker`. The share is at least one connection.
fn share_of(all: usize, workers: usize, worker: usize) -> usize {
    (all / workers + usize::from(worker < all % workers)).max(1)
}

impl Drop for Permit {
    fn drop(&mut self) {
        let share = &self.connections.shares()[self.worker];
        share.open.fetch_sub(1, Ordering::Relaxed);
        share.queue.notify_capacity();
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use thruway_net::Clock;
    use tokio::task::LocalSet;

    use super::*;
    use crate::upstream::connections::connect::connect;
    use crate::upstream::{RequestKey, ServerSlot, Upstream, UpstreamConfig};

    /// Regression test: connections that were opened without a limit were not counted after a reload had set
    /// a limit.
    #[tokio::test]
    async fn new_limit_counts_connections_opened_without_a_limit() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let config = UpstreamConfig::new("a", [listener.local_addr().unwrap().into()]);
        let before = Arc::new(Upstream::new(config.clone()));
        let worker = Worker::for_test(Clock::system());
        let connected = async {
            let slot = ServerSlot::select(&before, &worker, &RequestKey::default(), &[], None).await.unwrap();
            let stream = connect(&slot).await.unwrap();
            let after = Upstream::after(UpstreamConfig { connections_max: 1, ..config }, &before);
            let permit = || after.connections.permit(&worker, after.config.connections_max);
            assert!(permit().is_none());
            drop(stream);
            assert!(permit().is_some());
        };
        LocalSet::new().run_until(connected).await;
    }

    #[test]
    fn worker_shares_add_up_and_are_never_zero() {
        for (all, workers) in [(2, 2), (7, 3), (100, 8)] {
            let shares = (0..workers).map(|worker| share_of(all, workers, worker));
            assert_eq!(shares.sum::<usize>(), all, "{all} for {workers}");
        }
        assert_eq!([0, 1, 2].map(|worker| share_of(1, 3, worker)), [1, 1, 1]);
    }
}
