//! The verified token of a caller.

use std::fmt;
use std::sync::Arc;

/// The verified token of a caller. The debug output does not contain the token.
#[derive(Clone, PartialEq, Eq)]
pub struct CallerToken(Arc<str>);

impl CallerToken {
    /// Wraps a token that was verified.
    pub fn new(token: impl Into<Arc<str>>) -> Self {
        Self(token.into())
    }

    /// Returns the token. Never log this text, and never send it to a server other than an authorization
    /// server.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for CallerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
