//! The token of a server where it is kept, which others may share: clients of this process, and other
//! processes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

use super::store::{StoredToken, TokenLock, TokenStore};

/// What is kept of one server.
pub(super) struct Kept {
    store: Arc<dyn TokenStore>,
    /// Under what it is kept.
    key: String,
    /// What was there when it was looked at last. A store that has failed to keep our token still has an
    /// older one, whose refresh token may have been used: that is no news.
    seen: Mutex<Option<StoredToken>>,
}

/// That nobody else renews the token meanwhile, as far as the store can see to it.
pub(super) struct Turn {
    _lock: Option<TokenLock>,
}

impl Kept {
    pub(super) fn new(store: Arc<dyn TokenStore>, key: String) -> Self {
        Self { store, key, seen: Mutex::default() }
    }

    /// Waits until nobody else renews the token.
    pub(super) async fn take_turn(&self) -> Turn {
        // Who takes longer has been stopped, and is not waited for any more.
        Turn { _lock: timeout(TURN_WAIT, self.store.lock(&self.key)).await.ok() }
    }

    /// What has been kept since this was looked at last.
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

/// A renewal asks for up to three documents, and for a token twice, each for 20 s at most.
const TURN_WAIT: Duration = Duration::from_secs(100);
