//! Durable state: data about tasks and sessions in the store, so that other replicas can answer for them after this
//! replica has ended. The key of the fleet encrypts all values and hides all names.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use thruway_net::{Admitted, LogLimit};
use thruway_store::{SealingKey, SharedKey, Store, StoreError, StoreKey};

/// The store for the durable state of one endpoint.
pub(super) struct DurableStore {
    pub(super) store: Store,
    endpoint: String,
    sealing: SealingKey,
    /// The first key names new values. The other keys find values from before the replacement of the key.
    names: Vec<[u8; 32]>,
}

/// Numbers of failures since the start.
#[derive(Default)]
pub(super) struct DurableCounts {
    /// Tasks that were not stored or not read.
    tasks: AtomicU64,
    /// Events that were not stored or not read.
    events: AtomicU64,
    /// Events that the store contains.
    stored_events: AtomicU64,
}

impl DurableStore {
    pub(super) fn new(store: Store, key: &SharedKey, endpoint: &str) -> Self {
        Self {
            store,
            endpoint: endpoint.to_owned(),
            sealing: key.sealing("durable state"),
            names: key.derive_all("names of durable state"),
        }
    }

    /// Returns the possible keys of a value. The first key is for new values. The names reveal nothing about `name`.
    pub(super) fn keys(&self, kind: &'static str, name: &str) -> Vec<StoreKey> {
        let key = |secret: &[u8; 32]| {
            // The secret and the length have fixed sizes, so no two inputs have the same bytes.
            let mut digest = Sha256::new_with_prefix(secret);
            digest.update((self.endpoint.len() as u64).to_be_bytes());
            digest.update(self.endpoint.as_bytes());
            digest.update(name.as_bytes());
            StoreKey::new(kind, &URL_SAFE_NO_PAD.encode(digest.finalize()))
        };
        self.names.iter().map(key).collect()
    }

    /// Returns the key for a new value.
    pub(super) fn key(&self, kind: &'static str, name: &str) -> StoreKey {
        // A fleet has at least one key.
        self.keys(kind, name).swap_remove(0)
    }

    /// Encrypts a value. It can only be opened under the same key.
    pub(super) fn seal(&self, key: &StoreKey, value: &[u8]) -> Vec<u8> {
        self.sealing.seal(value, key.as_str().as_bytes())
    }

    /// Decrypts a value. Returns `None` if another fleet has written it, or if it was changed or moved.
    pub(super) fn open(&self, key: &StoreKey, sealed: &[u8]) -> Option<Vec<u8>> {
        self.sealing.open(sealed, key.as_str().as_bytes())
    }
}

impl fmt::Debug for DurableStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableStore").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl DurableCounts {
    pub(super) fn count_task(&self, error: &StoreError) {
        static LIMIT: LogLimit = LogLimit::new();
        self.tasks.fetch_add(1, Ordering::Relaxed);
        if let Some(Admitted { suppressed }) = LIMIT.admit() {
            tracing::warn!(suppressed, "a task is only in the memory of this gateway for now: {error}");
        }
    }

    pub(super) fn count_event(&self, reason: &dyn fmt::Display) {
        static LIMIT: LogLimit = LogLimit::new();
        self.events.fetch_add(1, Ordering::Relaxed);
        if let Some(Admitted { suppressed }) = LIMIT.admit() {
            tracing::warn!(
                suppressed,
                "an event of a session is only in the memory of this gateway: {reason}"
            );
        }
    }

    pub(super) fn count_stored_event(&self) {
        self.stored_events.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stored_events(&self) -> u64 {
        self.stored_events.load(Ordering::Relaxed)
    }

    pub(super) fn tasks(&self) -> u64 {
        self.tasks.load(Ordering::Relaxed)
    }

    pub(super) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hidden_and_differ_between_endpoints_and_fleets() {
        let (store, key) = (Store::memory(), SharedKey::random());
        let durable = |key: &SharedKey, endpoint: &str| DurableStore::new(store.clone(), key, endpoint);
        let name = durable(&key, "a").key("mcp-task", "secret id");
        assert!(!name.as_str().contains("secret"));
        assert_eq!(name, durable(&key, "a").key("mcp-task", "secret id"));
        assert_ne!(name, durable(&key, "b").key("mcp-task", "secret id"));
        assert_ne!(name, durable(&SharedKey::random(), "a").key("mcp-task", "secret id"));
        let sealed = durable(&key, "a").seal(&name, b"secret");
        assert_eq!(durable(&key, "a").open(&name, &sealed).unwrap(), b"secret");
        assert_eq!(durable(&key, "a").open(&StoreKey::new("mcp-task", "other"), &sealed), None);
        assert_eq!(durable(&SharedKey::random(), "a").open(&name, &sealed), None);
    }
}
