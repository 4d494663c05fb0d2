//! Seals values before they go to the shared store, and opens them afterwards.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thruway_store::{Fence, SealingKey, SharedKey, Store, StoreError, StoreKey, StoreState};
use tokio::time::{Instant, sleep};

/// Access to the secrets in the shared store. Clones share the access.
#[derive(Clone)]
pub struct SharedSecrets(Arc<Inner>);

struct Inner {
    store: Store,
    key: SealingKey,
    replica: String,
    /// Keys of unusable values that are already in the log. Each value is logged only once.
    logged: Mutex<BTreeSet<String>>,
    /// Number of locks for orders that this process holds.
    held_locks: AtomicUsize,
}

/// A lock for orders that this process holds, for the status.
pub(crate) struct HeldLock(SharedSecrets);

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.0.0.held_locks.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SharedSecrets {
    /// Returns access to the secrets in `store`. `key` is the operator key. `replica` is the name of this
    /// process. Each replica needs another name.
    pub fn new(store: Store, key: &SharedKey, replica: impl Into<String>) -> Self {
        let (key, replica, logged) = (key.sealing(PURPOSE), replica.into(), Mutex::default());
        Self(Arc::new(Inner { store, key, replica, logged, held_locks: AtomicUsize::new(0) }))
    }

    /// Returns `true` if this process holds a lock for orders of certificates.
    pub fn holds_lock(&self) -> bool {
        self.0.held_locks.load(Ordering::Relaxed) > 0
    }

    /// Notes that this process holds a lock for orders, until the result is dropped.
    pub(crate) fn hold_lock(&self) -> HeldLock {
        self.0.held_locks.fetch_add(1, Ordering::Relaxed);
        HeldLock(self.clone())
    }

    pub(crate) fn store(&self) -> &Store {
        &self.0.store
    }

    /// Returns the name of this process.
    pub(crate) fn replica(&self) -> &str {
        &self.0.replica
    }

    /// Waits until the first connection to the store is complete or has failed, but no longer than 2 s.
    pub(crate) async fn wait_for_connection(&self) {
        let started = Instant::now();
        while self.0.store.health().state == StoreState::Connecting && started.elapsed() < CONNECT_WAIT_MAX {
            sleep(CONNECT_CHECK_INTERVAL).await;
        }
    }

    /// Returns the value of `key`. Returns `None` if the value is missing or unusable.
    pub(crate) async fn get<T: DeserializeOwned>(&self, key: &StoreKey) -> Result<Option<T>, StoreError> {
        match self.0.store.get(key).await {
            Ok(sealed) => Ok(sealed.and_then(|sealed| self.opened(key.as_str(), &sealed))),
            Err(StoreError::UnknownFormat) => Ok(self.opened(key.as_str(), b"")),
            Err(error) => Err(error),
        }
    }

    /// Returns the value that [`set_fenced`](Self::set_fenced) has stored. Returns `None` if the value is
    /// missing or unusable.
    pub(crate) async fn fenced<T: DeserializeOwned>(&self, key: &StoreKey) -> Result<Option<T>, StoreError> {
        match self.0.store.fenced_value(key).await {
            Ok(sealed) => Ok(sealed.and_then(|(_, sealed)| self.opened(key.as_str(), &sealed))),
            Err(StoreError::UnknownFormat) => Ok(self.opened(key.as_str(), b"")),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn set<T: Serialize>(
        &self,
        key: &StoreKey,
        value: &T,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        self.0.store.set(key, self.sealed(key.as_str(), value)?, ttl).await
    }

    /// Stores a value, unless `key` has a value. Returns `true` if the value was stored.
    pub(crate) async fn set_if_absent<T: Serialize>(
        &self,
        key: &StoreKey,
        value: &T,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        self.0.store.set_if_absent(key, self.sealed(key.as_str(), value)?, ttl).await
    }

    /// Stores a value if `fence` is the newest fence of its lock. Returns `false` if another process has
    /// taken the lock since then.
    pub(crate) async fn set_fenced<T: Serialize>(
        &self,
        key: &StoreKey,
        value: &T,
        fence: Fence,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let sealed = self.sealed(key.as_str(), value)?;
        match self.0.store.set_fenced(key, sealed.clone(), fence, ttl).await {
            // Replaces a foreign value.
            Err(StoreError::UnknownFormat) => {
                self.remove(key).await?;
                self.0.store.set_fenced(key, sealed, fence, ttl).await
            }
            outcome => outcome,
        }
    }

    pub(crate) async fn remove(&self, key: &StoreKey) -> Result<(), StoreError> {
        self.0.store.remove(key).await
    }

    /// Returns the usable members of `collection`.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        collection: &StoreKey,
    ) -> Result<Vec<(String, T)>, StoreError> {
        let members = self.0.store.list(collection).await?.into_iter();
        let opened = |(member, sealed): (String, Bytes)| {
            Some((member.clone(), self.opened(&name_of(collection, &member), &sealed)?))
        };
        Ok(members.filter_map(opened).collect())
    }

    pub(crate) async fn put_member<T: Serialize>(
        &self,
        collection: &StoreKey,
        member: &str,
        value: &T,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        let sealed = self.sealed(&name_of(collection, member), value)?;
        self.0.store.put_member(collection, member, sealed, ttl).await
    }

    /// Encrypts a value. Nothing can open the result under another name.
    fn sealed<T: Serialize>(&self, name: &str, value: &T) -> Result<Bytes, StoreError> {
        let json = serde_json::to_vec(value).map_err(|_| StoreError::UnknownFormat)?;
        Ok(self.0.key.seal(&json, name.as_bytes()).into())
    }

    /// Decrypts a value. Logs an unusable value and returns `None`.
    fn opened<T: DeserializeOwned>(&self, name: &str, sealed: &[u8]) -> Option<T> {
        let opened = self.0.key.open(sealed, name.as_bytes());
        let opened = opened.and_then(|json| serde_json::from_slice(&json).ok());
        let mut logged = self.0.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() >= LOGGED_MAX {
            logged.clear();
        }
        if opened.is_some() {
            logged.remove(name);
        } else if logged.insert(name.to_owned()) {
            tracing::warn!(
                name,
                "ignoring a value in the shared store: it is damaged, or another operator key sealed it; \
                 check that all replicas have the same `key` in `[shared]`"
            );
        }
        opened
    }
}

/// Returns the name of a member of a collection.
fn name_of(collection: &StoreKey, member: &str) -> String {
    format!("{collection}/{member}")
}

/// Two values are equal if they share the access.
impl PartialEq for SharedSecrets {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedSecrets {}

/// Omits the operator key, because the key is secret.
impl fmt::Debug for SharedSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedSecrets").field("replica", &self.0.replica).finish_non_exhaustive()
    }
}

/// Purpose of the derived key. Values for other purposes have other keys.
const PURPOSE: &str = "certificates";

const CONNECT_WAIT_MAX: Duration = Duration::from_secs(2);
const CONNECT_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum number of names in `logged`, because the number of foreign values is not limited.
const LOGGED_MAX: usize = 1000;

#[cfg(test)]
pub(crate) mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// Returns the access of a replica with these operator keys.
    pub(crate) fn replica(store: &Store, name: &str, keys: &[u8]) -> SharedSecrets {
        let keys: Vec<_> = keys.iter().map(|byte| STANDARD.encode([*byte; 32])).collect();
        let key = SharedKey::parse(keys.iter().map(String::as_str)).unwrap();
        SharedSecrets::new(store.clone(), &key, name)
    }

    const TTL: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn store_contains_only_sealed_values() {
        let store = Store::memory();
        let secrets = replica(&store, "one", &[1]);
        let (key, collection) = (StoreKey::new("acme", "a"), StoreKey::new("acme", "b"));
        secrets.set(&key, &"PRIVATE KEY", TTL).await.unwrap();
        secrets.put_member(&collection, "one", &"PRIVATE KEY", TTL).await.unwrap();
        let mut raw = vec![store.get(&key).await.unwrap().unwrap()];
        raw.extend(store.list(&collection).await.unwrap().into_iter().map(|(_, sealed)| sealed));
        assert!(raw.iter().all(|sealed| !sealed.windows(7).any(|part| part == b"PRIVATE")));
        assert_eq!(secrets.get::<String>(&key).await.unwrap().unwrap(), "PRIVATE KEY");
        let members = secrets.list::<String>(&collection).await.unwrap();
        assert_eq!(members, [("one".to_owned(), "PRIVATE KEY".to_owned())]);
    }

    #[tokio::test(start_paused = true)]
    async fn damaged_foreign_and_exchanged_values_count_as_missing() {
        let store = Store::memory();
        let (own, other) = (replica(&store, "one", &[1]), replica(&store, "other", &[9]));
        let (key, another) = (StoreKey::new("acme", "a"), StoreKey::new("acme", "b"));
        own.set(&key, &"value", TTL).await.unwrap();
        let sealed = store.get(&key).await.unwrap().unwrap();
        store.set(&another, sealed.clone(), TTL).await.unwrap();
        assert_eq!(own.get::<String>(&another).await.unwrap(), None, "a value under another name");
        assert_eq!(other.get::<String>(&key).await.unwrap(), None, "a value of another operator key");
        let mut damaged = sealed.to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        for bytes in [damaged, b"value".to_vec(), Vec::new()] {
            store.set(&key, bytes.into(), TTL).await.unwrap();
            assert_eq!(own.get::<String>(&key).await.unwrap(), None);
        }
        // A value of another kind, which the store itself rejects.
        store.remove(&key).await.unwrap();
        own.put_member(&key, "member", &"value", TTL).await.unwrap();
        assert_eq!(own.fenced::<String>(&key).await.unwrap(), None);
        let fence = store.lock(&StoreKey::new("acme", "lock"), "one", TTL).await.unwrap().unwrap();
        assert!(own.set_fenced(&key, &"fenced", fence, TTL).await.unwrap());
        assert_eq!(own.fenced::<String>(&key).await.unwrap().as_deref(), Some("fenced"));
        store.remove(&key).await.unwrap();
        own.set(&key, &7, TTL).await.unwrap();
        assert_eq!(own.get::<String>(&key).await.unwrap(), None, "a value of another type");
        assert_eq!(own.get::<u32>(&key).await.unwrap(), Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn values_stay_readable_during_the_rotation_of_the_operator_key() {
        let store = Store::memory();
        let key = StoreKey::new("acme", "a");
        // The operator adds the new key everywhere, then seals with it everywhere, then removes the old key.
        for (writer, readers) in [
            (&[1][..], [&[1][..], &[1, 2]]),
            (&[1, 2], [&[1, 2], &[2, 1]]),
            (&[2, 1], [&[1, 2], &[2, 1]]),
            (&[2, 1], [&[2, 1], &[2]]),
        ] {
            replica(&store, "writer", writer).set(&key, &"value", TTL).await.unwrap();
            for reader in readers {
                let value = replica(&store, "reader", reader).get::<String>(&key).await.unwrap();
                assert_eq!(value.as_deref(), Some("value"), "{writer:?} {reader:?}");
            }
        }
        assert_eq!(replica(&store, "old", &[1]).get::<String>(&key).await.unwrap(), None);
    }
}
