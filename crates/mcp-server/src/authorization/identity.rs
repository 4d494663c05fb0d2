//! The identity and the verified token of a caller.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use thruway_mcp::schema::JsonObject;

/// A caller whose identity was verified, for example by a token.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Identity {
    /// The issuer of the token.
    pub issuer: String,
    /// Identifier of the caller. Each issuer gives each of its callers a unique identifier.
    pub subject: String,
    /// The scopes (permissions) that the token grants.
    pub scopes: Vec<String>,
    /// All claims of the token.
    pub claims: JsonObject,
    /// The verified token, if known. A gateway exchanges this token for tokens of other servers. Never send
    /// this token to another server.
    pub token: Option<CallerToken>,
}

impl Identity {
    /// Returns the identity of a caller with these claims. The scopes are those of the claim `scope` or `scp`.
    pub fn new(issuer: impl Into<String>, subject: impl Into<String>, claims: JsonObject) -> Self {
        let (issuer, subject, scopes) = (issuer.into(), subject.into(), scopes(&claims));
        Self { issuer, subject, scopes, claims, token: None }
    }

    /// Adds the verified token of the caller.
    #[must_use]
    pub fn with_token(self, token: CallerToken) -> Self {
        Self { token: Some(token), ..self }
    }

    /// Returns `true` if the caller has `scope`.
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes.iter().any(|given| given == scope)
    }

    /// Returns a unique name of the caller: the issuer and the subject. The subject alone is not unique,
    /// because two issuers may use the same subject.
    pub(crate) fn principal(&self) -> String {
        format!("{} {}", self.issuer, self.subject)
    }
}

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

/// Returns the scopes of a token. The claim `scope` contains the scopes, separated by spaces (RFC 9068
/// §2.2.3). Some issuers use an array instead of a text, or the claim `scp` instead of `scope`.
fn scopes(claims: &JsonObject) -> Vec<String> {
    match claims.get("scope").or_else(|| claims.get("scp")) {
        Some(Value::String(scopes)) => scopes.split_ascii_whitespace().map(str::to_owned).collect(),
        Some(Value::Array(scopes)) => scopes.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}
