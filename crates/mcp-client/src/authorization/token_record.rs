//! The stored token of a server. Other clients and processes may share the token.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

use super::store::{StoredToken, TokenLock, TokenStore};

/// The stored token of one server.
pub(super) struct TokenRecord {
    store: Arc<dyn TokenStore>,
    /// The key of the token in the store.
    key: String,
    /// The stored token at the last access. If the store failed to save a token of this client, the store
    /// still contains an older token. An older access token does not count as new, because its refresh token
    /// may already be used up.
    seen: Mutex<Option<StoredToken>>,
}

/// Prevents other clients from renewing the token, if the store supports locks.
pub(super) struct RenewalLock {
    _lock: Option<TokenLock>,
}

impl TokenRecord {
    pub(super) fn new(store: Arc<dyn TokenStore>, key: String) -> Self {
        Self { store, key, seen: Mutex::default() }
    }

    /// Waits until no other client renews the token, or until [`RENEWAL_LOCK_TIMEOUT`] has passed.
    pub(super) async fn lock_renewal(&self) -> RenewalLock {
        // A client that holds the lock for longer than [`RENEWAL_LOCK_TIMEOUT`] has probably crashed.
        RenewalLock { _lock: timeout(RENEWAL_LOCK_TIMEOUT, self.store.lock(&self.key)).await.ok() }
    }

    /// Returns the stored token if it has changed since the last access.
    pub(super) fn changed_token(&self) -> Option<StoredToken> {
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

/// Maximum time to wait for the lock. A renewal sends up to three requests for documents and two requests
/// for tokens. Each of these requests takes at most 20 s.
const RENEWAL_LOCK_TIMEOUT: Duration = Duration::from_secs(100);
