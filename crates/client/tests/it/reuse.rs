//! Tests of pools.

use std::time::Duration;

use thruway_client::{Config, Connection, Pool, PoolConfig, RequestToSend, UpstreamAddr};
use thruway_testkit::upstream::OK_RESPONSE;
use thruway_testkit::{PipePeer, PipeTransport};

use crate::line::{GET, Line, connection, get, start};

const CONFIG: PoolConfig = PoolConfig { idle_per_address_max: 2, idle_max: 3, idle: Duration::from_secs(10) };

fn key(number: u8) -> UpstreamAddr {
    UpstreamAddr::from(std::net::SocketAddr::from(([192, 0, 2, number], 80)))
}

fn pool() -> Pool<UpstreamAddr, PipeTransport> {
    Pool::new(CONFIG)
}

fn fresh() -> (PipePeer, Connection<PipeTransport>) {
    connection(&Config::default())
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn pool_returns_a_released_connection_marked_as_reused() {
    let mut pool = pool();
    let mut line = Line::get();
    line.peer.send(OK_RESPONSE);
    assert_eq!(line.read(), "200 `ok` end");
    pool.release(&key(1), line.exchange.finish().unwrap(), line.now);
    assert!(pool.acquire(&key(2), line.now).is_none());
    let connection = pool.acquire(&key(1), line.now).unwrap();
    assert_eq!((connection.exchanges(), pool.len()), (1, 0));
    let mut line = Line { exchange: start(connection, line.now), ..line };
    assert!(line.exchange.is_reused());
    line.peer.send(OK_RESPONSE);
    assert_eq!(line.read(), "200 `ok` end");
    assert!(line.leaves_connection_reusable());
}

#[test]
fn pool_returns_the_newest_connection_and_evicts_the_oldest() {
    let mut pool = pool();
    let (peers, connections): (Vec<_>, Vec<_>) = (0..3).map(|_| fresh()).unzip();
    for connection in connections {
        pool.release(&key(1), connection, seconds(0));
    }
    assert_eq!(pool.len(), 2);
    assert!(peers[0].is_closed() && !peers[1].is_closed());
    let last = pool.acquire(&key(1), seconds(0)).unwrap();
    drop(last);
    assert!(peers[2].is_closed() && !peers[1].is_closed());
}

#[test]
fn pool_never_exceeds_its_total_limit() {
    let mut pool = pool();
    let peers: Vec<PipePeer> = (0..8)
        .map(|number| {
            let (peer, connection) = fresh();
            pool.release(&key(number / 2), connection, seconds(0));
            peer
        })
        .collect();
    assert_eq!(pool.len(), 3);
    assert_eq!(peers.iter().filter(|peer| !peer.is_closed()).count(), 3);
    pool.forget(&key(0));
    assert_eq!(pool.len(), 1);
    assert!(peers[0].is_closed() && peers[1].is_closed());
}

#[test]
fn expired_closed_or_unexpectedly_readable_connections_are_dropped() {
    let mut pool = pool();
    let grow_old = |_: &PipePeer| {};
    let speak = |peer: &PipePeer| peer.send("HTTP/1.1 408 \r\n\r\n");
    for (spoil, now) in
        [(grow_old as fn(&PipePeer), 10), (PipePeer::finish, 0), (PipePeer::reset, 0), (speak, 0)]
    {
        for by_sweep in [false, true] {
            let (peer, connection) = fresh();
            pool.release(&key(1), connection, seconds(0));
            spoil(&peer);
            if by_sweep {
                pool.sweep(seconds(now));
                assert!(pool.is_empty() && peer.is_closed());
            }
            assert!(pool.acquire(&key(1), seconds(now)).is_none());
            assert!(pool.is_empty() && peer.is_closed());
        }
    }
}

#[test]
fn pool_skips_closed_connections_for_older_open_ones() {
    let mut pool = pool();
    let ((older, first), (newer, second)) = (fresh(), fresh());
    pool.release(&key(1), first, seconds(0));
    pool.release(&key(1), second, seconds(1));
    newer.finish();
    assert!(pool.acquire(&key(1), seconds(2)).is_some());
    assert!(newer.is_closed() && older.is_closed(), "the pool returned the older one, which was dropped");
    assert!(pool.is_empty());
}

#[test]
fn close_oldest_closes_the_longest_idle_connection() {
    let mut pool = pool();
    let (peers, connections): (Vec<_>, Vec<_>) = (0..3).map(|_| fresh()).unzip();
    for ((connection, number), since) in connections.into_iter().zip([1, 2, 1]).zip([5, 3, 4]) {
        pool.release(&key(number), connection, seconds(since));
    }
    let closed = || peers.iter().map(PipePeer::is_closed).collect::<Vec<_>>();
    assert!(pool.close_oldest());
    assert_eq!(closed(), [false, true, false]);
    drop(pool.acquire(&key(1), seconds(5)));
    assert_eq!((closed(), pool.len()), (vec![false, true, true], 1));
    assert!(pool.close_oldest() && !pool.close_oldest());
    assert_eq!((closed(), pool.len()), (vec![true; 3], 0));
}

#[test]
fn sweep_keeps_usable_connections() {
    let mut pool = pool();
    let ((old, first), (young, second)) = (fresh(), fresh());
    pool.release(&key(1), first, seconds(0));
    pool.release(&key(1), second, seconds(5));
    pool.sweep(seconds(12));
    assert!(old.is_closed() && !young.is_closed());
    assert_eq!(pool.len(), 1);
}

/// Node stops rejecting upgrades on a connection after it has declined one.
#[test]
fn connection_is_not_reused_after_a_declined_upgrade() {
    let request = RequestToSend { asks_for_upgrade: true, ..get() };
    let mut line = Line::with(request, GET, &Config::default());
    line.peer.send(OK_RESPONSE);
    assert_eq!(line.read(), "200 `ok` end");
    assert!(!line.leaves_connection_reusable());
}
