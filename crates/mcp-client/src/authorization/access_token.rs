//! Access tokens that a client gets from a [`TokenSource`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::error::OAuthError;

/// An access token. The debug output does not contain the token.
#[derive(Clone)]
pub struct AccessToken(Arc<IssuedToken>);

/// An issued token, and its entry in the cache.
pub(super) struct IssuedToken {
    /// The value of the header `Authorization`.
    pub(super) header: Box<str>,
    pub(super) key: TokenKey,
    /// Time until which the cache returns the token.
    pub(super) fresh_until: Instant,
}

/// Identifies a token: a digest of the request for the token. The digest contains the token of a caller only
/// as a hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TokenKey([u8; 32]);

impl AccessToken {
    pub(super) fn new(issued: IssuedToken) -> Self {
        Self(Arc::new(issued))
    }

    /// Returns the value of the header `Authorization` for a request with this token.
    pub fn header(&self) -> &str {
        &self.0.header
    }

    pub(super) fn key(&self) -> &TokenKey {
        &self.0.key
    }

    pub(super) fn is_fresh(&self) -> bool {
        Instant::now() < self.0.fresh_until
    }

    pub(super) fn fresh_until(&self) -> Instant {
        self.0.fresh_until
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl TokenKey {
    /// Returns the key of the request that consists of `parts`.
    pub(super) fn of<'p>(parts: impl IntoIterator<Item = &'p str>) -> Self {
        let mut digest = Sha256::new();
        for part in parts {
            // The lengths keep different lists of parts apart.
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        }
        Self(digest.finalize().into())
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Provides the access tokens of a client of one MCP server. See
/// [`McpClientBuilder::token_source`](crate::McpClientBuilder::token_source).
pub trait TokenSource: fmt::Debug + Send + Sync + 'static {
    /// Returns the token for the next request. Without a token, the client sends the request without the
    /// header `Authorization`.
    fn token(&self) -> TokenFuture<'_>;

    /// Called after the server has refused `token` with status 401. Returns `true` if the source may have
    /// another token. The client then sends the request once more.
    fn reject(&self, token: &AccessToken) -> bool;
}

/// The future of [`TokenSource::token`].
pub type TokenFuture<'s> = Pin<Box<dyn Future<Output = Result<Option<AccessToken>, OAuthError>> + Send + 's>>;
