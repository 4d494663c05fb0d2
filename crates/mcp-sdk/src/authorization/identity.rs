//! Whoever calls, as far as their token tells.

use thruway_mcp::schema::JsonObject;

/// A caller whose token was verified.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Identity {
    /// Who issued the token.
    pub issuer: String,
    /// Who the caller is to that issuer.
    pub subject: String,
    /// What the caller may do.
    pub scopes: Vec<String>,
    /// Everything that the token says.
    pub claims: JsonObject,
}

impl Identity {
    /// Whether the caller has been given `scope`.
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes.iter().any(|given| given == scope)
    }

    /// What tells callers apart: subjects are unique with their issuer only.
    pub(crate) fn principal(&self) -> String {
        format!("{} {}", self.issuer, self.subject)
    }
}
