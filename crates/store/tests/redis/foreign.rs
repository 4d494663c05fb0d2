//! Values that another program has written under the keys of a fleet.

use std::time::Duration;

use bytes::Bytes;
use thruway_store::{AddRequest, LeaseRequest, Store, StoreError, StoreKey, TokenRequest};

use crate::server::{Server, config, connect};

const LONG: Duration = Duration::from_mins(1);

/// Writes a value with `redis-cli`. `name` is the key without its prefix.
fn write(server: &Server, command: &str, name: &str, arguments: &[&str]) {
    let key = format!("fleet:v1:{name}");
    let mut all = vec![command, &key];
    all.extend(arguments);
    server.cli(&all);
}

async fn lease(store: &Store, key: &StoreKey, owner: &str) -> Result<u64, StoreError> {
    let request = LeaseRequest { owner, wanted: 8, max: 10, ttl: LONG };
    store.lease(key, request).await.map(|lease| lease.granted)
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn wrong_numbers_are_refused_or_replaced() {
    let server = Server::start(&[]).await;
    let store = connect(config(&server.url())).await;
    let key = |kind| StoreKey::new(kind, "a");
    for number in
        ["", "nan", "-5", "1e300", "0x10", "99999999999999999999", "9223372036854775807", "1 2", "\u{ff}"]
    {
        write(&server, "SET", "counter:a", &[number]);
        let add = AddRequest { amount: 1, max: 10, ttl: LONG };
        assert_eq!(store.add(&key("counter"), add).await, Err(StoreError::UnknownFormat), "{number}");
        assert_eq!(store.subtract(&key("counter"), 1).await, Err(StoreError::UnknownFormat), "{number}");

        write(&server, "HSET", "lock:a", &["owner", "other", "fence", "1", "until", number]);
        let lock = store.lock(&key("lock"), "own", LONG).await;
        assert!(matches!(lock, Ok(_) | Err(StoreError::UnknownFormat)), "{number}: {lock:?}");
        write(&server, "DEL", "lock:a", &[]);
        write(&server, "HSET", "lock:a", &["owner", "other", "fence", number]);
        let lock = store.lock(&key("lock"), "own", LONG).await;
        assert!(matches!(lock, Ok(Some(_)) | Err(StoreError::UnknownFormat)), "{number}: {lock:?}");

        let fence = store.lock(&key("fence"), "own", LONG).await.unwrap().unwrap();
        write(&server, "HSET", "fenced:a", &["fence", number, "value", "x"]);
        let set = store.set_fenced(&key("fenced"), Bytes::from_static(b"y"), fence, LONG).await;
        assert!(matches!(set, Ok(true) | Err(StoreError::UnknownFormat)), "{number}: {set:?}");
        let value = store.fenced_value(&key("fenced")).await;
        assert!(matches!(value, Ok(Some(_)) | Err(StoreError::UnknownFormat)), "{number}: {value:?}");

        write(&server, "HSET", "lease:a", &["other", number, "another", &format!("{number} {number}")]);
        assert_eq!(lease(&store, &key("lease"), "own").await, Ok(8), "{number}");

        write(&server, "SET", "bucket:a", &[&format!("{number} {number}")]);
        let tokens = TokenRequest { rate: 1, per: LONG, burst: 5, wanted: 5, returned: 0, spent: 0 };
        let grant = store.take_tokens(&key("bucket"), tokens).await;
        let is_small = grant.as_ref().is_ok_and(|grant| grant.granted <= 5 && grant.left <= 5);
        assert!(is_small || grant == Err(StoreError::UnknownFormat), "{number}: {grant:?}");

        write(&server, "DEL", "log:a", &[]);
        write(&server, "RPUSH", "log:a", &[&format!("{number} {number} entry")]);
        let position = store.append(&key("log"), Bytes::from_static(b"entry"), 5, LONG).await;
        let is_valid = position.as_ref().is_ok_and(|position| *position < 1 << 53);
        assert!(is_valid || position == Err(StoreError::UnknownFormat), "{number}: {position:?}");
        let page = store.read_after(&key("log"), 0, 10).await;
        assert!(page.is_ok() || page == Err(StoreError::UnknownFormat), "{number}: {page:?}");
    }
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn foreign_members_do_not_hide_the_members_of_the_fleet() {
    let server = Server::start(&[]).await;
    let store = connect(config(&server.url())).await;
    let set = StoreKey::new("set", "a");
    store.put_member(&set, "own", Bytes::from_static(b"value"), LONG).await.unwrap();
    write(&server, "HSET", "set:a", &["foreign", "", "other", "no time", "old", "1 old"]);
    let script = "return redis.call('HSET', KEYS[1], '\\255', '9000000000000 name is not UTF-8')";
    server.cli(&["EVAL", script, "1", "fleet:v1:set:a"]);
    let members = store.list(&set).await.unwrap();
    assert_eq!(members, [("own".to_owned(), Bytes::from_static(b"value"))]);
    // The list removes fields that no gateway has written, and members that have expired.
    assert_eq!(server.cli(&["HLEN", "fleet:v1:set:a"]).trim(), "2");
    // A set without space removes them too.
    let fill = "for at = 1, 1023 do redis.call('HSET', KEYS[1], at, 'foreign') end";
    server.cli(&["EVAL", fill, "1", "fleet:v1:set:a"]);
    store.put_member(&set, "second", Bytes::new(), LONG).await.unwrap();
    assert_eq!(server.cli(&["HLEN", "fleet:v1:set:a"]).trim(), "3");
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn locks_and_leases_end_in_time_after_the_clock_was_set_back() {
    let server = Server::start(&[]).await;
    let store = connect(config(&server.url())).await;
    let (lock, leases) = (StoreKey::new("lock", "a"), StoreKey::new("lease", "a"));
    // Before the clock was set back, other owners had a lock and a lease.
    write(&server, "HSET", "lock:a", &["owner", "other", "fence", "1", "until", "9000000000000"]);
    write(&server, "HSET", "lease:a", &["other", "10 9000000000000"]);
    let ttl = Duration::from_millis(50);
    let request = |owner| LeaseRequest { owner, wanted: 8, max: 10, ttl };
    assert_eq!(store.lock(&lock, "own", ttl).await, Ok(None));
    assert_eq!(store.lease(&leases, request("own")).await.unwrap().granted, 0);
    tokio::time::sleep(ttl * 2).await;
    assert!(store.lock(&lock, "own", ttl).await.unwrap().is_some());
    assert_eq!(store.lease(&leases, request("own")).await.unwrap().granted, 8);
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn large_values_of_another_program_are_refused_and_end_no_connection() {
    let server = Server::start(&[]).await;
    let store = connect(config(&server.url())).await;
    let fill = |script: &str, name: &str| {
        let script = format!("local large = string.rep('x', 20000000) {script}");
        server.cli(&["EVAL", &script, "1", &format!("fleet:v1:{name}")]);
    };
    fill("redis.call('SET', KEYS[1], large)", "value:a");
    fill("redis.call('HSET', KEYS[1], 'fence', 1, 'value', large)", "fenced:a");
    fill("redis.call('HSET', KEYS[1], 'fence', large, 'value', 1)", "fenced:b");
    fill("redis.call('HSET', KEYS[1], 'other', '9000000000000 ' .. large)", "set:a");
    fill("redis.call('RPUSH', KEYS[1], '1 1 ' .. large)", "log:a");
    let key = |kind| StoreKey::new(kind, "a");
    assert_eq!(store.get(&key("value")).await, Err(StoreError::UnknownFormat));
    for fenced in ["a", "b"] {
        let value = store.fenced_value(&StoreKey::new("fenced", fenced)).await;
        assert_eq!(value, Err(StoreError::UnknownFormat), "{fenced}");
    }
    // The list removes members that no gateway has written.
    assert_eq!(store.list(&key("set")).await, Ok(Vec::new()));
    assert_eq!(server.cli(&["EXISTS", "fleet:v1:set:a"]).trim(), "0");
    assert_eq!(store.read_after(&key("log"), 0, 10).await, Err(StoreError::UnknownFormat));
    assert_eq!(store.health().reconnects, 0, "{:?}", store.health());
}
