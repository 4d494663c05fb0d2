//! Storage of tokens, with the data that a renewal needs.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::identity::{Method, RegisteredClient};

/// A store for tokens. Tokens are as sensitive as passwords, so an implementation that writes them to a
/// file must protect that file.
///
/// `load` and `save` run while a request waits, so they should be fast. Before the client requests another
/// token, it loads the stored token, because another process that shares the store may have obtained a
/// newer token.
pub trait TokenStore: Send + Sync + 'static {
    /// Returns the token under this key. The key is the URL of the server, with the grant as its fragment
    /// unless the grant is a login.
    fn load(&self, key: &str) -> Option<StoredToken>;

    /// Stores a token under this key and replaces the previous token.
    fn save(&self, key: &str, token: &StoredToken);

    /// Prevents other clients of the store from renewing the token under this key. Waits for the lock, and
    /// holds the lock until the caller drops the returned value. The client may drop the future before it
    /// resolves. By default, this method does not lock anything.
    ///
    /// The lock is necessary because most refresh tokens are valid for one renewal, and some servers treat
    /// a second use as theft.
    fn lock<'a>(&'a self, key: &'a str) -> Locking<'a> {
        let _ = key;
        Box::pin(async { Box::new(()) as TokenLock })
    }
}

/// A lock on a token. Dropping this value releases the lock.
pub type TokenLock = Box<dyn Send>;

/// Future that resolves to a [`TokenLock`].
pub type Locking<'a> = Pin<Box<dyn Future<Output = TokenLock> + Send + 'a>>;

/// A stored token with its client, its server, and the data for its renewal.
///
/// To write a token to a file and read it again, use serde. The fields are private to this library.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredToken {
    /// The issuer of the token.
    pub(super) issuer: String,
    /// The server that accepts the token (RFC 8707).
    pub(super) resource: String,
    pub(super) access_token: String,
    /// `true` if the token is bound to `dpop_key`.
    pub(super) is_dpop: bool,
    /// Expiry in seconds since the Unix epoch.
    pub(super) expires_at: Option<u64>,
    pub(super) refresh_token: Option<String>,
    /// All requested or granted scopes.
    pub(super) scopes: String,
    pub(super) dpop_key: Option<String>,
    pub(super) client: StoredClient,
}

/// The client to which an authorization server issued a token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredClient {
    pub(super) id: String,
    /// The secret of a client that registered itself. Secrets of configured clients are not stored.
    pub(super) secret: Option<String>,
    pub(super) method: Method,
    /// The registered redirect URI.
    pub(super) redirect_uri: Option<String>,
    /// The registered scopes.
    pub(super) scopes: String,
}

impl StoredToken {
    /// Returns the issuer of the token.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the expiry in seconds since the Unix epoch, if known.
    pub const fn expires_at(&self) -> Option<u64> {
        self.expires_at
    }

    /// Returns `true` if the configured client `client` may use the token. Without a configured client, any
    /// token is usable.
    ///
    /// The client does not use the token of another client or of another issuer. A client with a secret but
    /// without an issuer uses no stored token, because a renewal would send the secret to the issuer of the
    /// token.
    pub(super) fn is_for(&self, client: Option<&RegisteredClient>) -> bool {
        client.is_none_or(|client| {
            let is_of_issuer = client.issuer.as_ref().is_none_or(|issuer| *issuer == self.issuer);
            client.id == self.client.id && is_of_issuer && !client.needs_issuer()
        })
    }
}

/// Keeps tokens in memory until the process ends.
#[derive(Default)]
pub struct MemoryTokenStore {
    tokens: Mutex<HashMap<String, StoredToken>>,
    renewals: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl MemoryTokenStore {
    fn tokens(&self) -> MutexGuard<'_, HashMap<String, StoredToken>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenStore for MemoryTokenStore {
    fn load(&self, key: &str) -> Option<StoredToken> {
        self.tokens().get(key).cloned()
    }

    fn save(&self, key: &str, token: &StoredToken) {
        self.tokens().insert(key.to_owned(), token.clone());
    }

    fn lock<'a>(&'a self, key: &'a str) -> Locking<'a> {
        let mut renewals = self.renewals.lock().unwrap_or_else(PoisonError::into_inner);
        let renewal = renewals.entry(key.to_owned()).or_default().clone();
        Box::pin(async { Box::new(renewal.lock_owned().await) as TokenLock })
    }
}

impl fmt::Debug for StoredToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredToken")
            .field("issuer", &self.issuer)
            .field("resource", &self.resource)
            .field("scopes", &self.scopes)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for StoredClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredClient").field("id", &self.id).finish_non_exhaustive()
    }
}

impl fmt::Debug for MemoryTokenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens", self.tokens().len())
    }
}
