//! Killed, stalled and full servers, and failover.

use std::time::Duration;

use bytes::Bytes;
use rustix::process::Signal;
use thruway_store::{Store, StoreConfig, StoreError, StoreKey, StoreState, SubscriptionEvent, TokenRequest};
use tokio::time::{Instant, sleep, timeout};

use crate::server::{LIMIT, Server, config, connect, until};

const LONG: Duration = Duration::from_mins(1);

/// Time within which operations must fail without a connection.
const AT_ONCE: Duration = Duration::from_millis(100);

/// Timeout of operations in these tests, and time for a busy machine.
const BOUND: Duration = Duration::from_millis(250 + 500);

fn key() -> StoreKey {
    StoreKey::new("value", "a")
}

/// Asserts that operations fail at once.
async fn fails_at_once(store: &Store) {
    let start = Instant::now();
    assert_eq!(store.get(&key()).await, Err(StoreError::Unavailable));
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn a_killed_server_is_used_again_after_its_restart() {
    let mut server = Server::start(&[]).await;
    let store = connect(config(&server.url())).await;
    let channel = StoreKey::new("news", "a");
    let mut news = store.subscribe(&channel);
    assert_eq!(timeout(LIMIT, news.next()).await.unwrap(), Some(SubscriptionEvent::Gap));
    store.set(&key(), Bytes::from_static(b"before"), LONG).await.unwrap();
    server.kill();
    until(&store, |health| health.state == StoreState::Disconnected).await;
    fails_at_once(&store).await;
    assert!(store.health().last_error.is_some());
    server.restart().await;
    let time = until(&store, |health| health.state == StoreState::Connected).await;
    assert!(time < Duration::from_secs(5), "{time:?}");
    assert_eq!(store.health().reconnects, 1);
    // The new server is empty, and it does not have the scripts.
    let tokens = TokenRequest { rate: 1, per: LONG, burst: 5, wanted: 2, returned: 0, spent: 0 };
    assert_eq!(store.take_tokens(&key(), tokens).await.unwrap().granted, 2);
    assert_eq!(timeout(LIMIT, news.next()).await.unwrap(), Some(SubscriptionEvent::Gap));
    store.publish(&channel, Bytes::from_static(b"again")).await.unwrap();
    let event = timeout(LIMIT, news.next()).await.unwrap();
    assert_eq!(event, Some(SubscriptionEvent::Message(Bytes::from_static(b"again"))));
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn operations_on_a_stalled_server_end_in_time() {
    let server = Server::start(&[]).await;
    let store = connect(config(&server.url())).await;
    let mut news = store.subscribe(&StoreKey::new("news", "a"));
    assert_eq!(timeout(LIMIT, news.next()).await.unwrap(), Some(SubscriptionEvent::Gap));
    server.signal(Signal::STOP);
    let operations = (0..5000).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            let start = Instant::now();
            let result = store.set(&key(), Bytes::from(vec![0; 1000]), LONG).await;
            (result, start.elapsed())
        })
    });
    let mut busy = 0;
    for operation in operations.collect::<Vec<_>>() {
        let (result, time) = operation.await.unwrap();
        assert!(time < BOUND, "{time:?}");
        match result {
            Err(StoreError::Busy) => busy += 1,
            Err(StoreError::Timeout | StoreError::Unavailable) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(busy, 5000 - 1024);
    until(&store, |health| health.state == StoreState::Disconnected).await;
    fails_at_once(&store).await;
    sleep(Duration::from_secs(3)).await;
    fails_at_once(&store).await;
    server.signal(Signal::CONT);
    let time = until(&store, |health| health.state == StoreState::Connected).await;
    assert!(time < Duration::from_secs(6), "{time:?}");
    store.set(&key(), Bytes::new(), LONG).await.unwrap();
    assert_eq!(timeout(LIMIT, news.next()).await.unwrap(), Some(SubscriptionEvent::Gap));
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn a_full_server_is_reported_and_recovers() {
    let server = Server::start(&[]).await;
    let store = connect(config(&server.url())).await;
    store.set(&key(), Bytes::from_static(b"before"), LONG).await.unwrap();
    server.cli(&["config", "set", "maxmemory", "1"]);
    let tokens = TokenRequest { rate: 1, per: LONG, burst: 5, wanted: 2, returned: 0, spent: 0 };
    let bucket = StoreKey::new("rate", "a");
    assert_eq!(store.set(&key(), Bytes::from_static(b"x"), LONG).await, Err(StoreError::Full));
    assert_eq!(store.take_tokens(&bucket, tokens).await, Err(StoreError::Full));
    assert_eq!(store.get(&key()).await.unwrap(), Some(Bytes::from_static(b"before")));
    assert_eq!(store.health().state, StoreState::Connected);
    server.cli(&["config", "set", "maxmemory", "0"]);
    assert_eq!(store.take_tokens(&bucket, tokens).await.unwrap().granted, 2);
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn sentinel_promotes_a_replica() {
    let mut master = Server::start(&[]).await;
    let replica = Server::start(&["--replicaof", &format!("127.0.0.1 {}", master.port)]).await;
    let sentinel = Server::sentinel(&format!(
        "sentinel monitor main 127.0.0.1 {} 1\nsentinel down-after-milliseconds main 500\n\
         sentinel failover-timeout main 3000\n",
        master.port
    ))
    .await;
    let url = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port);
    let store = connect(config(&url)).await;
    store.set(&key(), Bytes::from_static(b"before"), LONG).await.unwrap();
    let is_known = async {
        while !sentinel.cli(&["sentinel", "replicas", "main"]).contains(&replica.port.to_string()) {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(LIMIT, is_known).await.expect("Sentinel does not know the replica");
    let is_copied = async {
        while !replica.cli(&["keys", "*"]).contains("fleet:v1:value:a") {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT, is_copied).await.expect("the replica has no copy");
    thruway_store::inspect(config(&url)).await.unwrap();
    master.kill();
    until(&store, |health| health.state == StoreState::Disconnected).await;
    fails_at_once(&store).await;
    let time = until(&store, |health| health.state == StoreState::Connected).await;
    assert!(time < Duration::from_secs(10), "{time:?}");
    assert_eq!(store.get(&key()).await.unwrap(), Some(Bytes::from_static(b"before")));
    store.set(&key(), Bytes::from_static(b"after"), LONG).await.unwrap();
    assert!(replica.cli(&["get", "fleet:v1:value:a"]).contains("after"));
    let error = thruway_store::inspect(config(&url.replace("main", "other"))).await.unwrap_err();
    assert!(error.to_string().contains("does not know the master `other`"), "{error}");
}

/// A load of slow operations gets more connections, up to the maximum.
#[tokio::test]
#[ignore = "needs redis-server"]
async fn many_waiting_operations_get_more_connections() {
    let server = Server::start(&[]).await;
    // On a busy machine, timeouts would close the connections.
    let store = connect(StoreConfig { timeout: LIMIT, ..config(&server.url()) }).await;
    let load = async {
        while connections(&server) < 4 {
            let sets = (0..200).map(|number| {
                let store = store.clone();
                tokio::spawn(async move {
                    let key = StoreKey::new("value", &number.to_string());
                    store.set(&key, Bytes::from(vec![0; 100_000]), LONG).await
                })
            });
            for set in sets.collect::<Vec<_>>() {
                let _ = set.await.unwrap();
            }
        }
    };
    timeout(LIMIT, load).await.expect("the store opens no more connections");
    assert!(connections(&server) <= 4);
}

/// Returns the number of connections without that of `redis-cli`.
fn connections(server: &Server) -> usize {
    server.cli(&["client", "list"]).lines().filter(|line| !line.contains("cmd=client")).count()
}
