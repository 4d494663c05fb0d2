//! The stored token of a server. Other clients and processes may share it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

use super::store::{StoredToken, TokenLock, TokenStore};

/// The stored token of one server.
pub(super) struct TokenRecord {
    store: Arc<dyn TokenStore>,
    /// The key in the store.
    key: String,
    /// The token at the last access. If the store failed to save our token, it still has an older one. The
    /// refresh token of that one may be used up, so it does not count as new.
    seen: Mutex<Option<StoredToken>>,
}

/// Keeps other clients from renewing the token, if the store supports locks.
pub(super) struct RenewalLock {
    _lock: Option<TokenLock>,
}

impl TokenRecord {
    pub(super) fn new(store: Arc<dyn TokenStore>, key: String) -> Self {
        Self { store, key, seen: Mutex::default() }
    }

    /// Waits until no other client renews the token.
    pub(super) async fn lock_renewal(&self) -> RenewalLock {
        // A client that holds the lock for longer has probably crashed.
        RenewalLock { _lock: timeout(TURN_WAIT, self.store.lock(&self.key)).await.ok() }
    }

    /// Returns the stored token if it has changed since the last access.
    pub(super) fn news(&self) -> Option<StoredToken> {
        let stored = self.store.load(&self.key)?;
        let mut seen = self.seen();
        if seen.as_ref() == Some(&stored) {
            return None;
        }
        *seen = Some(stored.clone());
        Some(stored)
    }

    pub(super) fn save(&self, token: &StoredToken) {
        self.store.save(&self.key, token);
        if let Some(stored) = self.store.load(&self.key) {
            *self.seen() = Some(stored);
        }
    }

    fn seen(&self) -> MutexGuard<'_, Option<StoredToken>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum time to wait for the lock. A renewal requests up to three documents and two tokens, each for at
/// most 20 s.
const TURN_WAIT: Duration = Duration::from_secs(100);
