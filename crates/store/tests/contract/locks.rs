//! Locks and the values that their holders write.

use std::time::Duration;

use thruway_store::Store;
use tokio::time::sleep;

use super::{bytes, key};

const LONG: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_millis(120);

pub(crate) async fn only_one_owner_has_a_lock(store: Store) {
    let key = key("lock");
    let first = store.lock(&key, "a", LONG).await.unwrap().unwrap();
    assert_eq!(store.lock(&key, "b", LONG).await.unwrap(), None);
    let again = store.lock(&key, "a", LONG).await.unwrap().unwrap();
    assert!(again > first);
    assert!(!store.unlock(&key, first).await.unwrap());
    assert_eq!(store.lock(&key, "b", LONG).await.unwrap(), None);
    assert!(store.unlock(&key, again).await.unwrap());
    assert!(!store.unlock(&key, again).await.unwrap());
    let second = store.lock(&key, "b", LONG).await.unwrap().unwrap();
    assert!(second > again);
}

pub(crate) async fn a_lock_expires_and_its_number_is_too_old(store: Store) {
    let key = key("lock");
    let old = store.lock(&key, "a", SHORT).await.unwrap().unwrap();
    sleep(SHORT * 2).await;
    assert!(!store.renew_lock(&key, old, LONG).await.unwrap());
    let new = store.lock(&key, "b", LONG).await.unwrap().unwrap();
    assert!(new > old);
    assert!(!store.renew_lock(&key, old, LONG).await.unwrap());
    assert!(!store.unlock(&key, old).await.unwrap());
    assert!(store.renew_lock(&key, new, LONG).await.unwrap());
}

pub(crate) async fn a_renewed_lock_lasts_longer(store: Store) {
    let key = key("lock");
    let fence = store.lock(&key, "a", SHORT).await.unwrap().unwrap();
    assert!(store.renew_lock(&key, fence, LONG).await.unwrap());
    sleep(SHORT * 2).await;
    assert_eq!(store.lock(&key, "b", SHORT).await.unwrap(), None);
    assert!(store.unlock(&key, fence).await.unwrap());
}

pub(crate) async fn older_writers_are_refused(store: Store) {
    let (lock, value) = (key("lock"), key("fenced"));
    assert_eq!(store.fenced_value(&value).await.unwrap(), None);
    let old = store.lock(&lock, "a", LONG).await.unwrap().unwrap();
    assert!(store.set_fenced(&value, bytes("a"), old, LONG).await.unwrap());
    assert!(store.set_fenced(&value, bytes("a2"), old, LONG).await.unwrap());
    store.unlock(&lock, old).await.unwrap();
    let new = store.lock(&lock, "b", LONG).await.unwrap().unwrap();
    assert!(store.set_fenced(&value, bytes("b"), new, LONG).await.unwrap());
    assert!(!store.set_fenced(&value, bytes("late"), old, LONG).await.unwrap());
    assert_eq!(store.fenced_value(&value).await.unwrap(), Some((new, bytes("b"))));
}
