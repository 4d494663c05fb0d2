//! Pools of the idle HTTP/1.1 connections of one worker.
//!
//! A connection with a PROXY header belongs to one client, and only requests of this client reuse it.
//!
//! A connection belongs to the worker thread that polls it. Therefore, each worker has separate pools, which
//! need no locks.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use thruway_client::{Connection, Pool, PoolConfig, ReadBuffers, UpstreamStream};
use thruway_net::{ProxyHeader, Worker, spawn};
use tokio::time::sleep;

/// State of a worker: its pools, and the read buffers of all exchanges. A flag shows whether a task is
/// running that closes idle connections.
#[derive(Default)]
pub(crate) struct Pools {
    of_upstreams: RefCell<Vec<UpstreamPool>>,
    is_swept: Cell<bool>,
    pub(crate) read_buffers: ReadBuffers,
}

impl Pools {
    /// Returns the pools of `worker`.
    #[inline]
    pub(crate) fn of(worker: &Worker) -> Rc<Self> {
        worker.state::<Rc<Self>>().clone()
    }
}

/// The idle connections of one worker to the servers of an upstream. The key is the id of the server
/// (`Server::number`).
pub(crate) struct UpstreamPool {
    /// Id of the upstream. A reload creates an upstream with a new id.
    upstream: u64,
    /// Id of the upstream's `Connections`. A reload of the config does not change this id.
    connections: u64,
    idle: Duration,
    pool: Pool<usize, UpstreamStream, BuildHasherDefault<ByNumber>>,
    /// The idle connections with a PROXY header.
    proxied: Pool<(usize, ProxyHeader)>,
    count: IdleCount,
}

/// The pool key of a connection.
#[derive(Clone, Copy)]
pub(crate) struct PoolKey<'k> {
    pub(crate) upstream: u64,
    pub(crate) server: usize,
    /// The PROXY header of the connection, if it has one.
    pub(crate) proxied: Option<&'k ProxyHeader>,
}

/// Hasher for server ids. Clients cannot choose these ids, so the hasher needs no protection from collisions.
#[derive(Default)]
struct ByNumber(u64);

impl Hasher for ByNumber {
    fn write_usize(&mut self, number: usize) {
        // A hash table uses the highest and the lowest bits. The multiplication spreads the server id over
        // all bits.
        self.0 = (number as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Counters of idle connections, one for each worker. Each worker writes its own counter without a lock.
#[derive(Debug, Default)]
pub(crate) struct IdleCounts(Mutex<Vec<Weak<AtomicUsize>>>);

/// The counter of the idle connections of one worker.
#[derive(Debug)]
pub(crate) struct IdleCount(Arc<AtomicUsize>);

impl IdleCounts {
    /// Adds a counter for another worker, and returns this counter.
    pub(crate) fn add(&self) -> IdleCount {
        let count = Arc::new(AtomicUsize::new(0));
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.retain(|count| count.strong_count() > 0);
        counts.push(Arc::downgrade(&count));
        IdleCount(count)
    }

    pub(crate) fn sum(&self) -> usize {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().filter_map(Weak::upgrade).map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

impl IdleCount {
    #[inline]
    pub(crate) fn set(&self, connections: usize) {
        self.0.store(connections, Ordering::Relaxed);
    }
}

/// Takes an idle connection from the pool, if there is one for `key`.
pub(crate) fn take_idle(pools: &Pools, key: PoolKey<'_>, now: Duration) -> Option<Connection> {
    let mut pools = pools.of_upstreams.borrow_mut();
    let pool = pools.iter_mut().find(|pool| pool.upstream == key.upstream)?;
    let connection = match key.proxied {
        None => pool.pool.acquire(&key.server, now),
        Some(header) => pool.proxied.acquire(&(key.server, *header), now),
    };
    pool.note_idle();
    connection
}

/// Puts a connection into the pool for the next request. If the upstream has no pool on this worker, `make`
/// creates the pool.
pub(crate) fn put_idle(
    worker: &Rc<Worker>,
    state: &Pools,
    key: PoolKey<'_>,
    make: impl FnOnce() -> UpstreamPool,
    connection: Connection,
    now: Duration,
) {
    let mut pools = state.of_upstreams.borrow_mut();
    let known = pools.iter().position(|pool| pool.upstream == key.upstream);
    let index = known.unwrap_or_else(|| {
        pools.push(make());
        pools.len() - 1
    });
    match key.proxied {
        None => pools[index].pool.release(&key.server, connection, now),
        Some(header) => pools[index].proxied.release(&(key.server, *header), connection, now),
    }
    pools[index].note_idle();
    if !state.is_swept.replace(true) {
        spawn(IdleCloser(worker.clone()).run());
    }
}

/// Closes one connection of this worker to an upstream: the connection that has been idle for the longest
/// time. Returns `false` if no connection is idle.
pub(crate) fn close_oldest(worker: &Worker, connections: u64) -> bool {
    let mut pools = worker.state::<Rc<Pools>>().of_upstreams.borrow_mut();
    // The pools of earlier configs come first in `pools`.
    let mut own = pools.iter_mut().filter(|pool| pool.connections == connections);
    own.any(|pool| {
        let is_closed = pool.pool.close_oldest() || pool.proxied.close_oldest();
        pool.note_idle();
        is_closed
    })
}

/// The task that closes the idle connections of a worker after their idle timeout. The task also removes
/// connections that the server has closed.
struct IdleCloser(Rc<Worker>);

impl IdleCloser {
    /// Runs until the worker has no idle connections.
    async fn run(self) {
        let pools = &self.0.state::<Rc<Pools>>().of_upstreams;
        loop {
            let pause = pause_of(&pools.borrow());
            let Some(pause) = pause else { return };
            sleep(pause).await;
            sweep(&mut pools.borrow_mut(), self.0.clock().now());
        }
    }
}

impl Drop for IdleCloser {
    fn drop(&mut self) {
        self.0.state::<Rc<Pools>>().is_swept.set(false);
    }
}

/// Returns the time until the next check of all idle connections. Returns `None` if there are no pools.
fn pause_of(pools: &[UpstreamPool]) -> Option<Duration> {
    let least = pools.iter().map(|pool| pool.idle).min()?;
    Some((least / 2).clamp(SWEEP_PAUSE_MIN, SWEEP_PAUSE_MAX))
}

/// Closes idle connections that can no longer be used, in the pools of current and removed upstreams.
fn sweep(pools: &mut Vec<UpstreamPool>, now: Duration) {
    pools.retain_mut(|pool| {
        pool.pool.sweep(now);
        pool.proxied.sweep(now);
        pool.note_idle();
        !(pool.pool.is_empty() && pool.proxied.is_empty())
    });
}

/// Returns the pool limits for connections with a PROXY header. Such a connection is useless after its client
/// has left, but the pool does not notice that the client has left. Therefore, the pool keeps such
/// connections only for a short time. The limit for one server applies to all of these connections together.
fn limits_for_proxied_connections(config: PoolConfig) -> PoolConfig {
    PoolConfig {
        idle_max: config.idle_max.min(config.idle_per_address_max),
        idle: config.idle.min(PROXIED_IDLE),
        ..config
    }
}

/// Maximum time that a connection with a PROXY header waits for the next request of its client.
const PROXIED_IDLE: Duration = Duration::from_secs(5);

/// Minimum time between two checks of all idle connections.
const SWEEP_PAUSE_MIN: Duration = Duration::from_millis(100);

/// Maximum time between two checks of all idle connections. The time is short, because a connection that is
/// added between two checks may have a shorter idle timeout than the others.
const SWEEP_PAUSE_MAX: Duration = Duration::from_secs(1);

impl UpstreamPool {
    /// Returns an empty pool. `is_proxied` is `true` if the connections of the upstream have a PROXY
    /// header.
    pub(crate) fn new(
        upstream: u64,
        connections: u64,
        config: PoolConfig,
        is_proxied: bool,
        count: IdleCount,
    ) -> Self {
        let proxied = limits_for_proxied_connections(config);
        Self {
            upstream,
            connections,
            idle: if is_proxied { proxied.idle } else { config.idle },
            pool: Pool::with_hasher(config, BuildHasherDefault::new()),
            proxied: Pool::new(proxied),
            count,
        }
    }

    fn note_idle(&self) {
        self.count.set(self.pool.len() + self.proxied.len());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;
    use crate::UpstreamConfig;

    #[test]
    fn pool_key_hash_differs_in_low_and_high_bits() {
        let by_number = BuildHasherDefault::<ByNumber>::new();
        let hashes = (0..128_usize).map(|number| by_number.hash_one(number));
        let (low, high): (HashSet<_>, HashSet<_>) = hashes.map(|hash| (hash % 128, hash >> 57)).unzip();
        assert_eq!(low.len(), 128);
        assert!(high.len() > 100);
    }

    /// Regression test: after clients had left, thousands of their connections to a server stayed idle for
    /// half a minute.
    #[test]
    fn pools_per_client_have_smaller_idle_limits() {
        let all = UpstreamConfig::new("a", []).pool;
        let of_one = limits_for_proxied_connections(all);
        assert_eq!(of_one.idle_max, all.idle_per_address_max);
        assert!(of_one.idle < all.idle / 2);
        let small = PoolConfig { idle_max: 1, idle: Duration::from_secs(1), ..all };
        assert_eq!(limits_for_proxied_connections(small), small);
    }
}
