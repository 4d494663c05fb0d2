//! The idle connections of a client.

use std::fmt;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime;

use super::destination::{ByOrigin, Destination, Origin};
use super::drive::now;
use crate::{Connection, Pool, PoolConfig, UpstreamStream};

/// The idle connections, grouped by the tokio runtime that drives them. A connection works only while its
/// runtime is running, so requests in another runtime do not use it.
pub(super) struct Idle {
    pools: Mutex<Vec<(Option<runtime::Id>, OriginPool)>>,
    config: PoolConfig,
}

type OriginPool = Pool<Origin, UpstreamStream, BuildHasherDefault<ByOrigin>>;

/// The data that is necessary to return a connection to its pool.
pub(super) struct PoolReturn {
    pub(super) idle: Arc<Idle>,
    pub(super) runtime: Option<runtime::Id>,
    pub(super) destination: Destination,
}

impl PoolReturn {
    pub(super) fn take_back(&self, connection: Connection) {
        self.idle.release(self.runtime, self.destination.origin(), connection);
    }
}

impl Idle {
    pub(super) fn new(config: PoolConfig) -> Self {
        Self { pools: Mutex::default(), config }
    }

    /// Closes connections that have been idle too long or that their servers have closed.
    pub(super) fn sweep(&self) {
        self.lock().iter_mut().for_each(|(_, pool)| pool.sweep(now()));
    }

    /// Returns the number of idle connections.
    pub(super) fn count(&self) -> usize {
        self.lock().iter().map(|(_, pool)| pool.len()).sum()
    }

    pub(super) fn acquire(&self, runtime: Option<runtime::Id>, origin: &Origin) -> Option<Connection> {
        let mut pools = self.lock();
        let (_, pool) = pools.iter_mut().find(|(one, _)| *one == runtime)?;
        pool.acquire(origin, now())
    }

    fn release(&self, runtime: Option<runtime::Id>, origin: &Origin, connection: Connection) {
        let mut pools = self.lock();
        if let Some((_, pool)) = pools.iter_mut().find(|(one, _)| *one == runtime) {
            return pool.release(origin, connection, now());
        }
        // Some pools may belong to runtimes that have ended, so the client removes pools without usable
        // connections.
        pools.iter_mut().for_each(|(_, pool)| pool.sweep(now()));
        pools.retain(|(_, pool)| !pool.is_empty());
        let mut pool = Pool::with_hasher(self.config, BuildHasherDefault::new());
        pool.release(origin, connection, now());
        pools.push((runtime, pool));
    }

    /// Ignores a poisoned lock, because a panic cannot interrupt an operation on the pools halfway.
    fn lock(&self) -> MutexGuard<'_, Vec<(Option<runtime::Id>, OriginPool)>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} idle connections", self.count())
    }
}
