//! A pool of idle connections.
//!
//! A pool has no lock, so each worker thread has a separate pool. The pool does not watch its
//! connections. A pool checks a connection when a caller takes the connection, and checks all connections
//! in a [sweep](Pool::sweep).

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

use thruway_net::Transport;

use crate::{Connection, UpstreamAddr, UpstreamStream};

/// Idle connections, grouped by a key. Requests with the same key can share a connection. The key is the
/// address of the upstream server, or a more specific value. For example, a key can be a server's number,
/// or an address and a TLS server name.
///
/// The documentation of the [crate](crate) shows how a relay uses a pool.
#[derive(Debug)]
pub struct Pool<K = UpstreamAddr, T = UpstreamStream, S = RandomState> {
    idle: HashMap<K, Vec<Idle<T>>, S>,
    count: usize,
    config: PoolConfig,
}

/// The limits of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolConfig {
    /// Maximum number of idle connections for each key. The default is 64. At this limit, the pool closes
    /// the connection that has been idle the longest.
    pub idle_per_address_max: usize,
    /// Maximum number of idle connections in the pool. The default is 1024. At this limit, the pool
    /// closes a released connection instead of keeping it.
    pub idle_max: usize,
    /// Maximum idle time of a connection. The default is 30 s. Set this time below the idle timeout of the
    /// upstream server. Otherwise, the server may close a connection at the moment when the client sends a
    /// request.
    pub idle: Duration,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self { idle_per_address_max: 64, idle_max: 1024, idle: Duration::from_secs(30) }
    }
}

#[derive(Debug)]
struct Idle<T> {
    connection: Connection<T>,
    since: Duration,
}

impl<T: Transport> Idle<T> {
    fn is_usable(&mut self, now: Duration, config: &PoolConfig) -> bool {
        now.saturating_sub(self.since) < config.idle && self.connection.is_alive()
    }
}

impl<K: Eq + Hash, T: Transport> Pool<K, T> {
    /// Returns an empty pool.
    pub fn new(config: PoolConfig) -> Self {
        Self::with_hasher(config, RandomState::new())
    }
}

impl<K: Eq + Hash, T: Transport, S: BuildHasher> Pool<K, T, S> {
    /// Returns an empty pool that uses `hasher`. A fast, simple hasher is safe if peers cannot choose the
    /// keys.
    pub fn with_hasher(config: PoolConfig, hasher: S) -> Self {
        Self { idle: HashMap::with_hasher(hasher), count: 0, config }
    }

    /// Takes the most recently used connection for `key`, so that connections that are not needed stay idle
    /// and expire. Returns `None` if the pool has no usable connection for `key`. A connection is unusable if
    /// it has been idle too long, if the upstream server has closed it, or if unexpected data has arrived.
    /// The pool closes the unusable connections that it finds during the search.
    #[inline]
    pub fn acquire<Q>(&mut self, key: &Q, now: Duration) -> Option<Connection<T>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let idle = self.idle.get_mut(key)?;
        while let Some(mut last) = idle.pop() {
            self.count -= 1;
            if last.is_usable(now, &self.config) {
                return Some(last.connection);
            }
        }
        None
    }

    /// Adds an idle connection for `key`. If the pool is full, closes the connection instead.
    #[inline]
    pub fn release<Q>(&mut self, key: &Q, connection: Connection<T>, now: Duration)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        if self.count >= self.config.idle_max || self.config.idle_per_address_max == 0 {
            return;
        }
        let fresh = Idle { connection, since: now };
        self.count += 1;
        match self.idle.get_mut(key) {
            Some(idle) => {
                if idle.len() >= self.config.idle_per_address_max {
                    drop(idle.remove(0));
                    self.count -= 1;
                }
                idle.push(fresh);
            }
            None => drop(self.idle.insert(key.to_owned(), vec![fresh])),
        }
    }

    /// Closes unusable connections. Call this function regularly. Without these calls, idle connections to a
    /// server that gets no more requests stay open.
    pub fn sweep(&mut self, now: Duration) {
        let config = self.config;
        self.idle.retain(|_, idle| {
            idle.retain_mut(|idle| idle.is_usable(now, &config));
            !idle.is_empty()
        });
        self.count = self.idle.values().map(Vec::len).sum();
    }

    /// Closes the connection that has been idle the longest. Returns `false` if the pool is empty.
    pub fn close_oldest(&mut self) -> bool {
        let waiting = self.idle.values_mut().filter(|idle| !idle.is_empty());
        let Some(idle) = waiting.min_by_key(|idle| idle[0].since) else { return false };
        drop(idle.remove(0));
        self.count -= 1;
        true
    }

    /// Closes all idle connections for `key`. Call this function when a server is removed or disabled.
    pub fn forget<Q>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.count -= self.idle.remove(key).map_or(0, |idle| idle.len());
    }

    /// Returns the number of idle connections.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Returns `true` if the pool has no connections.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}
