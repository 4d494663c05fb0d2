//! A store that cannot connect.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use thruway_store::{Store, StoreConfig, StoreError, StoreKey, StoreState};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};

/// Returns a listener and settings for a store at its address.
async fn listener() -> (TcpListener, StoreConfig) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    (listener, StoreConfig::new(url.parse().unwrap()))
}

#[tokio::test]
async fn attempts_to_connect_are_at_least_100_ms_apart() {
    let (listener, config) = listener().await;
    let store = Store::connect(config);
    // The subscription needs another connection.
    let _subscription = store.subscribe(&StoreKey::new("news", "a"));
    let mut before: Option<Instant> = None;
    for _ in 0..5 {
        drop(timeout(Duration::from_secs(20), listener.accept()).await.unwrap().unwrap());
        let now = Instant::now();
        // This test may see an attempt late, and the next one in time.
        let apart = before.map_or(Duration::MAX, |before| now - before);
        assert!(apart > Duration::from_millis(70), "{apart:?}");
        before = Some(now);
    }
    assert_eq!(store.health().state, StoreState::Disconnected);
    assert!(store.health().last_error.is_some());
}

#[tokio::test]
async fn operations_without_a_connection_fail_at_once() {
    // The listener accepts connections but never responds.
    let (_listener, config) = listener().await;
    let store = Store::connect(config);
    let key = StoreKey::new("value", "a");
    let set = store.set(&key, Bytes::new(), Duration::from_secs(1));
    let result = timeout(Duration::from_millis(200), set).await.unwrap();
    assert_eq!(result, Err(StoreError::Unavailable));
    let health = store.health();
    assert_eq!((health.state, health.operations.not_sent), (StoreState::Connecting, 1));
}

#[test]
fn operations_fail_after_the_end_of_the_runtime() {
    let store = {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let context = runtime.enter();
        let store = Store::connect(StoreConfig::new("redis://127.0.0.1:1".parse().unwrap()));
        drop(context);
        runtime.shutdown_background();
        store
    };
    let key = StoreKey::new("value", "a");
    let mut get = pin!(store.get(&key));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(get.as_mut().poll(&mut context), Poll::Ready(Err(StoreError::Unavailable)));
}
