//! Wrong settings are explained.

use std::time::Duration;

use bytes::Bytes;
use thruway_store::{Store, StoreKey, StoreState, inspect};

use crate::server::{Server, config, connect, free_port, until};

#[tokio::test]
#[ignore = "needs redis-server"]
async fn two_fleets_cannot_use_the_same_prefix() {
    let server = Server::start(&[]).await;
    let first = connect(config(&server.url())).await;
    let mut other = config(&server.url());
    other.identities = vec!["another fleet".to_owned()];
    let error = inspect(other.clone()).await.unwrap_err().to_string();
    assert!(error.contains("another fleet with a different key uses the prefix `fleet`"), "{error}");
    let second = Store::connect(other.clone());
    until(&second, |health| health.state == StoreState::Disconnected).await;
    let error = second.health().last_error.unwrap();
    assert!(error.contains("another fleet"), "{error}");
    assert!(second.set(&StoreKey::new("value", "a"), Bytes::new(), Duration::from_secs(9)).await.is_err());
    other.prefix = "second".to_owned();
    connect(other).await;
    // A fleet that rotates its key knows both identities.
    let mut rotated = config(&server.url());
    rotated.identities = vec!["new key".to_owned(), "this fleet".to_owned()];
    connect(rotated.clone()).await;
    inspect(rotated).await.unwrap();
    drop(first);
    let error = inspect(config(&server.url())).await.unwrap_err().to_string();
    assert!(error.contains("another fleet"), "{error}");
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn an_inspection_reports_version_clock_and_policy() {
    let server = Server::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).await;
    let inspection = inspect(config(&server.url())).await.unwrap();
    let name = if server.cli(&["info", "server"]).contains("valkey_version") { "Valkey " } else { "Redis " };
    assert!(inspection.version.as_ref().unwrap().starts_with(name), "{inspection:?}");
    assert!(inspection.store_time() > Duration::from_hours(24 * 365 * 50));
    assert!(inspection.warnings[0].contains("noeviction"), "{:?}", inspection.warnings);
    assert_eq!(server.cli(&["dbsize"]).trim(), "0");
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn wrong_servers_are_explained() {
    let server = Server::start(&["--rename-command", "EVALSHA", ""]).await;
    let explained = async |url: &str| inspect(config(url)).await.unwrap_err().to_string();
    let error = explained(&server.url()).await;
    assert!(error.contains("`EVALSHA` failed") && error.contains("must provide this command"), "{error}");
    let error = explained(&format!("redis://127.0.0.1:{}", free_port())).await;
    assert!(error.contains("check the host and the port"), "{error}");
    let error = explained(&format!("rediss://127.0.0.1:{}", server.port)).await;
    assert!(error.contains("whether the port uses TLS"), "{error}");
    let error = explained(&format!("redis+cluster://127.0.0.1:{}", server.port)).await;
    assert!(error.contains("use `redis://`"), "{error}");
    let error = explained(&format!("redis+sentinel://127.0.0.1:{}/main", server.port)).await;
    assert!(error.contains("no Sentinel"), "{error}");
    let sentinel = Server::sentinel("").await;
    let error = explained(&sentinel.url()).await;
    assert!(error.contains("redis+sentinel://"), "{error}");
    let replica = Server::start(&["--replicaof", &format!("127.0.0.1 {}", server.port)]).await;
    let error = explained(&replica.url()).await;
    assert!(error.contains("replica"), "{error}");
}
