//! Distinguishes callers with different permissions.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use thruway_mcp::schema::JsonObject;
use thruway_mcp_server::CallerToken;
use thruway_mcp_server::backend::Caller;

/// Identifies a caller and its permissions. The tokens of a caller have the same key if they differ only in
/// their times and ids. A token with other scopes or groups has another key, so it never shares a
/// connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct CallerKey([u8; 32]);

impl CallerKey {
    /// Returns the key of `caller`, whose verified token is `token`.
    pub(super) fn of(caller: &Caller, token: &CallerToken) -> Self {
        let mut digest = Sha256::new();
        let mut add = |part: &[u8]| {
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        };
        add(caller.principal().unwrap_or_default().as_bytes());
        match caller.claims().filter(|claims| expiry_of(Some(claims)).is_some()) {
            Some(claims) => add(permissions(claims).as_bytes()),
            // The permissions of such a token are unknown.
            None => add(token.as_str().as_bytes()),
        }
        Self(digest.finalize().into())
    }
}

/// Returns the claims that are the same in all tokens of a caller with the same permissions, as JSON.
fn permissions(claims: &JsonObject) -> String {
    let lasting = claims.iter().filter(|(name, _)| !PASSING_CLAIMS.contains(&name.as_str()));
    let lasting: BTreeMap<_, _> = lasting.collect();
    // Claims can always be written as JSON.
    serde_json::to_string(&lasting).unwrap_or_default()
}

/// Returns the seconds since the Unix epoch at which a token with these claims expires.
pub(super) fn expiry_of(claims: Option<&JsonObject>) -> Option<u64> {
    let expiry = claims?.get("exp")?;
    expiry.as_u64().or_else(|| expiry.as_f64().filter(|expiry| *expiry >= 0.0).map(rounded))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the value is not negative")]
const fn rounded(seconds: f64) -> u64 {
    seconds as u64
}

/// Claims that differ between two tokens of the same caller with the same permissions.
const PASSING_CLAIMS: [&str; 5] = ["exp", "iat", "nbf", "jti", "auth_time"];

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use thruway_mcp_server::Identity;

    use super::*;

    fn key(subject: &str, claims: Value, token: &str) -> CallerKey {
        let claims = serde_json::from_value(claims).unwrap();
        let token = CallerToken::new(token);
        let identity = Identity::new("https://login.example", subject, claims).with_token(token.clone());
        CallerKey::of(&Caller::Identified(Arc::new(identity), None), &token)
    }

    #[test]
    fn renewed_token_has_the_same_key_and_other_permissions_have_another_key() {
        let ada = key("ada", json!({"exp": 1, "iat": 1, "jti": "a", "scope": "read", "sub": "ada"}), "1");
        let renewed = key("ada", json!({"scope": "read", "exp": 2, "iat": 2, "sub": "ada"}), "2");
        assert_eq!(ada, renewed);
        for (subject, claims) in [
            ("bob", json!({"exp": 1, "scope": "read", "sub": "ada"})),
            ("ada", json!({"exp": 1, "scope": "write", "sub": "ada"})),
            ("ada", json!({"exp": 1, "scope": "read", "sub": "ada", "groups": ["eng"]})),
        ] {
            assert_ne!(ada, key(subject, claims.clone(), "1"), "{claims}");
        }
    }

    #[test]
    fn each_token_without_known_permissions_has_its_own_key() {
        assert_ne!(key("ada", json!({}), "1"), key("ada", json!({}), "2"));
        assert_eq!(key("ada", json!({}), "1"), key("ada", json!({}), "1"));
    }
}
