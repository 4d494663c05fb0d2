//! Assigns each new connection to the worker with the fewest connections.
//!
//! `SO_REUSEPORT` alone is not enough: the kernel distributes connections by a hash, so all long-lived
//! connections may reach the same worker.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::tls_failure::TlsFailure;

/// The number of connections of each worker, and the maximum number of connections.
#[derive(Clone, Debug)]
pub(crate) struct Balance {
    workers: Arc<Mutex<Vec<WorkerCounts>>>,
    connections_max: Arc<AtomicUsize>,
    /// Number of client errors at each worker. The counters are atomic, so that counting an error needs no
    /// lock.
    client_faults: Arc<[AtomicU64]>,
    /// Number of failed TLS handshakes at each worker, by the kind of the failure.
    tls_failures: Arc<[[AtomicU64; TlsFailure::NAMES.len()]]>,
}

#[derive(Clone, Copy, Default, Debug)]
struct WorkerCounts {
    connections: usize,
    connections_total: u64,
    is_finished: bool,
}

/// Load of a worker.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct WorkerLoad {
    /// Number of open connections.
    pub connections: usize,
    /// Number of connections since the start of the worker, including closed connections.
    pub connections_total: u64,
    /// Number of client errors since the start of the worker.
    /// [`Worker::count_client_fault`](crate::Worker::count_client_fault) counts these errors.
    pub client_faults_total: u64,
    /// Number of failed TLS handshakes with clients since the start of the worker, in the order of
    /// [`TlsFailure::NAMES`].
    pub tls_failures_total: [u64; TlsFailure::NAMES.len()],
}

/// Result of the assignment of a connection to a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Assigned {
    pub(crate) worker: usize,
    pub(crate) is_over_limit: bool,
}

impl Balance {
    pub(crate) fn new(workers: usize, connections_max: usize) -> Self {
        let connections_max = Arc::new(AtomicUsize::new(connections_max));
        Self {
            workers: Arc::new(Mutex::new(vec![WorkerCounts::default(); workers])),
            connections_max,
            client_faults: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            tls_failures: (0..workers).map(|_| Default::default()).collect(),
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn set_connections_max(&self, connections: usize) {
        self.connections_max.store(connections, Ordering::Relaxed);
    }

    fn connections_max(&self) -> usize {
        self.connections_max.load(Ordering::Relaxed)
    }

    /// Chooses a worker for a connection that the worker `acceptor` has accepted, and counts the connection
    /// at the chosen worker. If several workers have the fewest connections, prefers `acceptor`. Passing the
    /// connection to a different worker costs more, because that worker must be woken. Returns `None` if all
    /// connections that [`over_limit_max`] allows beyond the maximum are also in use. Then the server closes
    /// the connection without sending an error.
    pub(crate) fn assign(&self, acceptor: usize) -> Option<Assigned> {
        let mut places = self.lock();
        let open: usize = places.iter().map(|place| place.connections).sum();
        let connections_max = self.connections_max();
        if open >= connections_max.saturating_add(over_limit_max(connections_max)) {
            return None;
        }
        let worker = (0..places.len())
            .filter(|worker| !places[*worker].is_finished)
            .min_by_key(|worker| (places[*worker].connections, *worker != acceptor))
            .unwrap_or(acceptor);
        let place = &mut places[worker];
        place.connections += 1;
        place.connections_total += 1;
        Some(Assigned { worker, is_over_limit: open >= connections_max })
    }

    /// Marks `worker` as full: sets its count of open connections to the configured maximum.
    pub(crate) fn fill(&self, worker: usize) {
        self.lock()[worker].connections = self.connections_max();
    }

    /// Counts the end of a connection of `worker`. Does not change the count after
    /// [`cut_off`](Self::cut_off).
    pub(crate) fn release(&self, worker: usize) {
        let place = &mut self.lock()[worker];
        if !place.is_finished {
            place.connections -= 1;
        }
    }

    pub(crate) fn count_client_fault(&self, worker: usize) {
        self.client_faults[worker].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_tls_failure(&self, worker: usize, failure: TlsFailure) {
        self.tls_failures[worker][failure.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Marks `worker` as ended, so that it gets no more connections. The open connections of `worker`
    /// remain counted.
    pub(crate) fn cut_off(&self, worker: usize) {
        self.lock()[worker].is_finished = true;
    }

    /// Marks `worker` as ended and returns `true` if no connection is assigned to `worker`. An ended worker
    /// gets no more connections.
    pub(crate) fn finish(&self, worker: usize) -> bool {
        let place = &mut self.lock()[worker];
        place.is_finished = place.connections == 0;
        place.is_finished
    }

    pub(crate) fn loads(&self) -> Vec<WorkerLoad> {
        let load_of = |(worker, place): (usize, &WorkerCounts)| WorkerLoad {
            connections: place.connections,
            connections_total: place.connections_total,
            client_faults_total: self.client_faults[worker].load(Ordering::Relaxed),
            tls_failures_total: self.tls_failures[worker]
                .each_ref()
                .map(|count| count.load(Ordering::Relaxed)),
        };
        self.lock().iter().enumerate().map(load_of).collect()
    }

    /// Locks the counts even if another thread has panicked, because a panic cannot leave the counts
    /// inconsistent.
    fn lock(&self) -> MutexGuard<'_, Vec<WorkerCounts>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of connections that the server accepts beyond the maximum. The server only sends an
/// error on each of these connections. The number is small, so that enough descriptors remain for files.
const fn over_limit_max(connections_max: usize) -> usize {
    connections_max / 20 + 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(balance: &Balance) -> Vec<usize> {
        balance.loads().iter().map(|load| load.connections).collect()
    }

    #[test]
    fn worker_connection_counts_differ_by_at_most_one() {
        let balance = Balance::new(3, 1000);
        for acceptor in [0, 0, 0, 0, 2, 2, 1, 0, 0, 0] {
            balance.assign(acceptor);
            let counts = connections(&balance);
            assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
        }
    }

    #[test]
    fn accepting_worker_keeps_the_connection_if_counts_are_equal() {
        let balance = Balance::new(2, 10);
        assert_eq!(balance.assign(1).unwrap().worker, 1);
        assert_eq!(balance.assign(1).unwrap().worker, 0);
        balance.release(0);
        assert_eq!(balance.assign(1).unwrap().worker, 0);
    }

    #[test]
    fn finished_worker_gets_no_connections_and_busy_worker_cannot_finish() {
        let balance = Balance::new(2, 10);
        assert!(balance.finish(0));
        assert_eq!(balance.assign(1).unwrap().worker, 1);
        assert_eq!(balance.assign(1).unwrap().worker, 1);
        assert!(!balance.finish(1));
    }

    #[test]
    fn cut_off_connections_stay_counted() {
        let balance = Balance::new(2, 10);
        balance.assign(0);
        balance.assign(1);
        balance.cut_off(0);
        balance.release(0);
        balance.release(1);
        assert_eq!(connections(&balance), [1, 0]);
    }

    #[test]
    fn connections_over_the_limit_are_marked() {
        let balance = Balance::new(2, 2);
        let over: Vec<bool> = (0..4).map(|_| balance.assign(0).unwrap().is_over_limit).collect();
        assert_eq!(over, [false, false, true, true]);
        balance.release(0);
        balance.release(1);
        balance.release(1);
        assert!(!balance.assign(0).unwrap().is_over_limit);
    }

    /// Silent connections over the limit once used up the descriptors that were reserved for files.
    #[test]
    fn connections_far_over_the_limit_are_dropped() {
        let balance = Balance::new(1, 100);
        let kept = (0..1000).filter_map(|_| balance.assign(0)).count();
        assert_eq!(kept, 109);
        balance.release(0);
        assert!(balance.assign(0).is_some_and(|assigned| assigned.is_over_limit));
    }
}
