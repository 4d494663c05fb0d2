//! What is remembered of a server: its token, and what is needed to get the next one.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::identity::{Method, RegisteredClient};

/// Keeps tokens. They are as good as passwords: whoever writes them down keeps them from others.
///
/// To load and to save is done while a request waits, and should be quick. Who has got a token looks at what
/// is kept before the next one is asked for: another process that shares the store may have got one.
pub trait TokenStore: Send + Sync + 'static {
    /// What was kept under this key: the URL of the server, with the grant as its fragment if that is no
    /// login.
    fn load(&self, key: &str) -> Option<StoredToken>;

    /// Keeps a token under this key, instead of the one before.
    fn save(&self, key: &str, token: &StoredToken);

    /// Waits until nobody else who shares the store renews the token under this key, and keeps others from it
    /// until what is returned is dropped: most refresh tokens are good for one renewal, and some servers take
    /// a second one for a theft. Waiting may be given up. Default: nobody is waited for.
    fn lock<'a>(&'a self, key: &'a str) -> Locking<'a> {
        let _ = key;
        Box::pin(async { Box::new(()) as TokenLock })
    }
}

/// Others are kept from renewing a token until it is dropped.
pub type TokenLock = Box<dyn Send>;

/// Somebody waiting for a [`TokenLock`].
pub type Locking<'a> = Pin<Box<dyn Future<Output = TokenLock> + Send + 'a>>;

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

    /// Returns `true` if the token belongs to `client`, or if no client is named. A token of another client
    /// is not used. A token of another issuer, or of any issuer if the client must name one and does not, is
    /// not renewed: that would send the client's secret to the issuer of the token.
    pub(super) fn is_for(&self, client: Option<&RegisteredClient>) -> bool {
        client.is_none_or(|client| {
            let is_of_issuer = client.issuer.as_ref().is_none_or(|issuer| *issuer == self.issuer);
            client.id == self.client.id && is_of_issuer && !client.needs_issuer()
        })
    }
}

/// Tokens for as long as the program runs.
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
