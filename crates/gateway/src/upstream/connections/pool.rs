//! The connections of one worker that wait to be used again.
//!
//! Where servers are told about clients, by a header of the PROXY protocol, a connection is for the client that it tells of, and waits
//! for that one only.
//!
//! Connections belong to the thread whose reactor watches them, so each worker has pools of its own, and no lock.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::Duration;

use thruway_client::{
    ConnectError, Connection, Pool, PoolConfig, UpstreamAddr, UpstreamStream, connect_and_write, secure_for,
};
use thruway_net::tls::TlsFailure;
use thruway_net::{Clock, OwnConnection, ProxyHeader, ProxyVersion, Stream, Worker, spawn};
use tokio::time::sleep;

use crate::upstream::connections::idle::IdleCount;
use crate::upstream::health::condition::Chosen;
use crate::upstream::{Lease, Ongoing, Server, ServerAddr, Upstream, UpstreamTls};

/// The pool of one upstream, by the numbers of its servers.
struct UpstreamPool {
    upstream: u64,
    ongoing: Arc<Ongoing>,
    idle: Duration,
    pool: Pool<usize, UpstreamStream, BuildHasherDefault<ByNumber>>,
    /// Those whose servers were told about clients.
    proxied: Pool<(usize, ProxyHeader)>,
    count: IdleCount,
}

/// Finds servers by their numbers, which nobody else chooses.
#[derive(Default)]
struct ByNumber(u64);

impl Hasher for ByNumber {
    fn write_usize(&mut self, number: usize) {
        // Spread over all bits, of which a table looks at the highest and at the lowest.
        self.0 = (number as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write(&mut self, octets: &[u8]) {
        for octet in octets {
            self.write_usize(usize::from(*octet));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

thread_local! {
    static POOLS: RefCell<Vec<UpstreamPool>> = const { RefCell::new(Vec::new()) };
    static IS_SWEEPING: Cell<bool> = const { Cell::new(false) };
}

/// A connection to the leased server that was used before, if one waits.
pub(crate) fn acquire(lease: &Lease, now: Duration) -> Option<Connection> {
    POOLS.with_borrow_mut(|pools| {
        let pool = pools.iter_mut().find(|pool| pool.upstream == lease.upstream.id)?;
        let connection = match &lease.proxied {
            None => pool.pool.acquire(&lease.server.number, now),
            Some(header) => pool.proxied.acquire(&(lease.server.number, **header), now),
        };
        pool.note_idle();
        connection
    })
}

/// Lets a connection to the leased server wait for the next request; unless the server has chosen another version since, in which the next
/// ones are sent.
pub(crate) fn release(lease: &Lease, connection: Connection, now: Duration) {
    let (upstream, server): (&Upstream, &Server) = (&lease.upstream, &lease.server);
    if upstream.config.negotiates_http2 && server.condition.chosen() == Chosen::Http2 {
        return;
    }
    POOLS.with_borrow_mut(|pools| {
        let known = pools.iter().position(|pool| pool.upstream == upstream.id);
        let index = known.unwrap_or_else(|| {
            pools.push(UpstreamPool::new(upstream));
            pools.len() - 1
        });
        match &lease.proxied {
            None => pools[index].pool.release(&server.number, connection, now),
            Some(header) => pools[index].proxied.release(&(server.number, **header), connection, now),
        }
        pools[index].note_idle();
    });
    upstream.connection_is_free();
    Sweeping::begin();
}

/// A new connection to the leased server, in TLS if that is wanted, with these `protocols` on offer there or those of the config.
pub(crate) async fn connect_secured(
    lease: &Lease,
    protocols: Option<&[&[u8]]>,
) -> Result<UpstreamStream, ConnectError> {
    let stream = connect(lease).await?;
    let config = &lease.upstream.config;
    match &config.tls {
        None => Ok(stream.into()),
        Some(tls) => {
            let configured = &config.servers[lease.server.origin].address;
            secure_as(stream, tls, configured, protocols, config.connect_timeout).await
        }
    }
}

/// Speaks TLS on `stream` with a server that the config calls `configured`.
pub(crate) async fn secure_as(
    stream: Stream,
    tls: &UpstreamTls,
    configured: &ServerAddr,
    protocols: Option<&[&[u8]]>,
    within: Duration,
) -> Result<UpstreamStream, ConnectError> {
    let Some(name) = tls.name_of(configured) else {
        return Err(ConnectError::Tls(TlsFailure::CertificateForOtherName));
    };
    secure_for(stream, &tls.connector, &name, protocols, within).await
}

/// A new connection to the leased server, which is told about the client if that is wanted.
pub(crate) async fn connect(lease: &Lease) -> Result<Stream, ConnectError> {
    let (address, config) = (&lease.server.address, &lease.upstream.config);
    let permit = lease.permit_to_connect().await?;
    let stream = match lease.proxied.as_deref().zip(config.proxy_protocol) {
        None => thruway_client::connect(address, config.connect_timeout).await?,
        Some((header, version)) => {
            connect_and_tell(address, *header, version, config.connect_timeout).await?
        }
    };
    let own = OwnConnection::of(&stream);
    lease.server.set_leads_back(own.is_some());
    stream.hold((permit, own));
    Ok(stream)
}

/// A new connection that begins with a header of the PROXY protocol.
pub(crate) async fn connect_and_tell(
    address: &UpstreamAddr,
    header: ProxyHeader,
    version: ProxyVersion,
    within: Duration,
) -> Result<Stream, ConnectError> {
    let mut first = Vec::new();
    header.write(version, &mut first);
    connect_and_write(address, &first, within).await
}

/// Closes the connection that waits longest of those to servers of an upstream that this worker has. Whether there was one.
pub(crate) fn close_oldest(ongoing: &Arc<Ongoing>) -> bool {
    POOLS.with_borrow_mut(|pools| {
        // Those of a config of before are further in front.
        let mut own = pools.iter_mut().filter(|pool| Arc::ptr_eq(&pool.ongoing, ongoing));
        own.any(|pool| {
            let is_closed = pool.pool.close_oldest() || pool.proxied.close_oldest();
            pool.note_idle();
            is_closed
        })
    })
}

/// A task of this worker that closes idle connections which have waited too long, or which their servers have closed, whatever requests
/// come: until this is dropped.
struct Sweeping;

impl Sweeping {
    /// Begins, unless it has already.
    #[inline]
    fn begin() {
        if !IS_SWEEPING.replace(true) {
            spawn(Self.run());
        }
    }

    /// Goes on until no connection waits.
    async fn run(self) {
        let clock = Worker::current().map_or_else(Clock::system, |worker| worker.clock().clone());
        while let Some(pause) = POOLS.with_borrow(|pools| pause_of(pools)) {
            sleep(pause).await;
            POOLS.with_borrow_mut(|pools| sweep(pools, clock.now()));
        }
    }
}

impl Drop for Sweeping {
    fn drop(&mut self) {
        IS_SWEEPING.set(false);
    }
}

/// How long it may take until the next look at `pools`; `None` if there is nothing in them.
fn pause_of(pools: &[UpstreamPool]) -> Option<Duration> {
    let least = pools.iter().map(|pool| pool.idle).min()?;
    Some((least / 2).clamp(SWEEP_PAUSE_MIN, SWEEP_PAUSE_MAX))
}

/// Closes what nobody would take any more, in all pools: also in those of upstreams that are there no longer.
fn sweep(pools: &mut Vec<UpstreamPool>, now: Duration) {
    pools.retain_mut(|pool| {
        pool.pool.sweep(now);
        pool.proxied.sweep(now);
        pool.note_idle();
        !(pool.pool.is_empty() && pool.proxied.is_empty())
    });
}

/// Nobody else can use a connection whose client has gone, which is not known here: so these do not wait for long, and all together
/// are no more than a server has otherwise.
fn of_one_client_each(config: PoolConfig) -> PoolConfig {
    PoolConfig {
        idle_max: config.idle_max.min(config.idle_per_address_max),
        idle: config.idle.min(PROXIED_IDLE),
        ..config
    }
}

/// How long a connection waits for the next request of its client.
const PROXIED_IDLE: Duration = Duration::from_secs(5);

/// Connections that wait for less are looked at no more often.
const SWEEP_PAUSE_MIN: Duration = Duration::from_millis(100);

/// Those that begin to wait meanwhile may wait for less than all others.
const SWEEP_PAUSE_MAX: Duration = Duration::from_secs(1);

impl UpstreamPool {
    fn new(upstream: &Upstream) -> Self {
        let config = upstream.config.pool;
        let proxied = of_one_client_each(config);
        let is_proxied = upstream.config.proxy_protocol.is_some();
        Self {
            upstream: upstream.id,
            ongoing: upstream.ongoing.clone(),
            idle: if is_proxied { proxied.idle } else { config.idle },
            pool: Pool::with_hasher(config, BuildHasherDefault::new()),
            proxied: Pool::new(proxied),
            count: upstream.ongoing.idle.add(),
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
    fn servers_are_told_apart_by_the_bits_that_a_table_looks_at() {
        let by_number = BuildHasherDefault::<ByNumber>::new();
        let hashes = (0..128_usize).map(|number| by_number.hash_one(number));
        let (low, high): (HashSet<_>, HashSet<_>) = hashes.map(|hash| (hash % 128, hash >> 57)).unzip();
        assert_eq!(low.len(), 128);
        assert!(high.len() > 100);
    }

    /// Once clients that came and went left thousands of connections to a server behind, for half a minute.
    #[test]
    fn connections_of_one_client_each_are_no_more_than_those_of_all() {
        let all = UpstreamConfig::new("a", []).pool;
        let of_one = of_one_client_each(all);
        assert_eq!(of_one.idle_max, all.idle_per_address_max);
        assert!(of_one.idle < all.idle / 2);
        let small = PoolConfig { idle_max: 1, idle: Duration::from_secs(1), ..all };
        assert_eq!(of_one_client_each(small), small);
    }
}
