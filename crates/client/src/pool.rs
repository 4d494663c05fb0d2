//! Connections that wait to be used again.
//!
//! A pool is a plain value without a lock: a worker has one of its own. Nothing here watches the connections;
//! they are looked at when they are taken, and when somebody asks for a [sweep](Pool::sweep).

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

use thruway_net::Transport;

use crate::{Connection, UpstreamAddr, UpstreamStream};

/// Idle connections, by what a request must agree in to use them: the address, or whatever else tells them
/// apart, such as a server's number, or address and name where TLS is spoken.
#[derive(Debug)]
pub struct Pool<K = UpstreamAddr, T = UpstreamStream, S = RandomState> {
    idle: HashMap<K, Vec<Idle<T>>, S>,
    count: usize,
    config: PoolConfig,
}

/// How many connections wait, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolConfig {
    /// Idle connections to one address. Default 64; beyond, the one that has waited longest is closed.
    pub idle_per_address_max: usize,
    /// Idle connections in all. Default 1024; beyond, what is released is closed.
    pub idle_max: usize,
    /// How long a connection waits to be used. Default 30 s. Best shorter than the upstream's own limit: then
    /// it is not closed at the other end just as it is used.
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
    /// An empty pool.
    pub fn new(config: PoolConfig) -> Self {
        Self::with_hasher(config, RandomState::new())
    }
}

impl<K: Eq + Hash, T: Transport, S: BuildHasher> Pool<K, T, S> {
    /// An empty pool that finds its keys by `hasher`: where no peer chooses them, a simpler one does.
    pub fn with_hasher(config: PoolConfig, hasher: S) -> Self {
        Self { idle: HashMap::with_hasher(hasher), count: 0, config }
    }

    /// Takes the connection to `key` that was used last, so that those that are not needed grow old.
    /// Connections that have waited too long, that the upstream has closed, or on which something has come
    /// that nobody asked for are closed on the way.
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

    /// Lets a connection wait, if there is room for it.
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

    /// Closes what nobody would take any more. To be called now and then: otherwise connections to an
    /// upstream that is not used stay open.
    pub fn sweep(&mut self, now: Duration) {
        let config = self.config;
        self.idle.retain(|_, idle| {
            idle.retain_mut(|idle| idle.is_usable(now, &config));
            !idle.is_empty()
        });
        self.count = self.idle.values().map(Vec::len).sum();
    }

    /// Closes the connection that waits longest. Whether there was one.
    pub fn close_oldest(&mut self) -> bool {
        let waiting = self.idle.values_mut().filter(|idle| !idle.is_empty());
        let Some(idle) = waiting.min_by_key(|idle| idle[0].since) else { return false };
        drop(idle.remove(0));
        self.count -= 1;
        true
    }

    /// Closes all that waits for `key`: the server is gone, or not to be used.
    pub fn forget<Q>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.count -= self.idle.remove(key).map_or(0, |idle| idle.len());
    }

    /// How many connections wait.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether no connection waits.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}
