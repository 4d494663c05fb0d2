//! What is remembered of a server: its token, and what is needed to get the next one.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::identity::Method;

/// Keeps tokens. They are as good as passwords: whoever writes them down keeps them from others.
///
/// Both methods are called while a request waits, and should be quick.
pub trait TokenStore: Send + Sync + 'static {
    /// What was kept under this key: the URL of the server, with the grant as its fragment if that is no login.
    fn load(&self, key: &str) -> Option<StoredToken>;

    /// Keeps a token under this key, instead of the one before.
    fn save(&self, key: &str, token: &StoredToken);
}

/// A token as it is kept: whose it is, for which server, and how it is renewed.
///
/// It is written and read with serde; what is in it is for nobody else.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredToken {
    /// Who has issued it.
    pub(super) issuer: String,
    /// The server that it is for (RFC 8707).
    pub(super) resource: String,
    pub(super) access_token: String,
    /// Whether it is bound to `dpop_key`.
    pub(super) is_dpop: bool,
    /// In seconds since the Unix epoch.
    pub(super) expires_at: Option<u64>,
    pub(super) refresh_token: Option<String>,
    /// All scopes that were asked for, or granted.
    pub(super) scopes: String,
    pub(super) dpop_key: Option<String>,
    pub(super) client: StoredClient,
}

/// The client that a token was issued to.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredClient {
    pub(super) id: String,
    /// Of a client that registered itself; other secrets are their owners' to keep.
    pub(super) secret: Option<String>,
    pub(super) method: Method,
    /// The redirect URI it has registered.
    pub(super) redirect_uri: Option<String>,
    /// And the scopes.
    pub(super) scopes: String,
}

impl StoredToken {
    /// Who has issued it.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// When it ends, in seconds since the Unix epoch, if that is known.
    pub const fn expires_at(&self) -> Option<u64> {
        self.expires_at
    }
}

/// Tokens for as long as the program runs.
#[derive(Default)]
pub struct MemoryTokenStore(Mutex<HashMap<String, StoredToken>>);

impl MemoryTokenStore {
    fn tokens(&self) -> MutexGuard<'_, HashMap<String, StoredToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenStore for MemoryTokenStore {
    fn load(&self, key: &str) -> Option<StoredToken> {
        self.tokens().get(key).cloned()
    }

    fn save(&self, key: &str, token: &StoredToken) {
        self.tokens().insert(key.to_owned(), token.clone());
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
