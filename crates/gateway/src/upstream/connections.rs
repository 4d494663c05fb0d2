//! The connections of one worker that wait to be used again.
//!
//! Connections belong to the thread whose reactor watches them, so each worker has pools of its own, and no lock.

use std::cell::RefCell;
use std::time::Duration;

use thruway_client::{Connection, Pool};

use super::{Lease, Server, Upstream};

/// The pool of one upstream, by the numbers of its servers.
struct UpstreamPool {
    upstream: u64,
    idle: Duration,
    swept: Duration,
    pool: Pool<usize>,
}

thread_local! {
    static POOLS: RefCell<Vec<UpstreamPool>> = const { RefCell::new(Vec::new()) };
}

/// A connection to the leased server that was used before, if one waits.
pub(crate) fn acquire(lease: &Lease, now: Duration) -> Option<Connection> {
    POOLS.with_borrow_mut(|pools| {
        let pool = pools.iter_mut().find(|pool| pool.upstream == lease.upstream.id)?;
        pool.pool.acquire(&lease.server.number, now)
    })
}

/// Lets a connection to the leased server wait for the next request.
pub(crate) fn release(lease: &Lease, connection: Connection, now: Duration) {
    let (upstream, server): (&Upstream, &Server) = (&lease.upstream, &lease.server);
    POOLS.with_borrow_mut(|pools| {
        let known = pools.iter().position(|pool| pool.upstream == upstream.id);
        let index = known.unwrap_or_else(|| {
            pools.push(UpstreamPool::new(upstream, now));
            pools.len() - 1
        });
        pools[index].pool.release(&server.number, connection, now);
        if pools[index].is_to_be_swept(now) {
            sweep(pools, now);
        }
    });
}

/// Closes what nobody would take any more, in all pools: also in those of upstreams that are there no longer.
fn sweep(pools: &mut Vec<UpstreamPool>, now: Duration) {
    pools.retain_mut(|pool| {
        pool.swept = now;
        pool.pool.sweep(now);
        !pool.pool.is_empty()
    });
}

impl UpstreamPool {
    fn new(upstream: &Upstream, now: Duration) -> Self {
        let config = upstream.config.pool;
        Self { upstream: upstream.id, idle: config.idle, swept: now, pool: Pool::new(config) }
    }

    fn is_to_be_swept(&self, now: Duration) -> bool {
        now.saturating_sub(self.swept) > self.idle / 2
    }
}
