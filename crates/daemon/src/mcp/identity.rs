//! Converts clients that a policy of the route has verified to callers of an MCP endpoint.

use std::sync::Arc;

use serde_json::{Map, Value};
use thruway_gateway::VerifiedClient;
use thruway_mcp_sdk::{CallerToken, Identity};
use thruway_message::FieldLines;

/// Returns the identity of a verified client. Two clients are the same caller only if their issuers and their
/// subjects are equal. The issuer is the claim `iss` of the token, or else the name of the policy.
pub(super) fn identity_of(client: Arc<VerifiedClient>) -> Identity {
    let VerifiedClient { policy, user, mut claims } = Arc::unwrap_or_clone(client);
    let issuer = text_of(&claims, "iss").map_or_else(|| format!("policy {policy}"), str::to_owned);
    let subject = subject_of(user.as_deref(), &claims);
    if let (Some(user), true) = (user, claims.is_empty()) {
        claims.insert("sub".to_owned(), Value::String(user));
    }
    Identity::new(issuer, subject, claims)
}

/// Returns the identifier of the caller. For a token without `sub`, returns the claim that identifies the OAuth
/// client. The prefix distinguishes this identifier from a user of the same name.
fn subject_of(user: Option<&str>, claims: &Map<String, Value>) -> String {
    if let Some(user) = user {
        return user.to_owned();
    }
    let client = CLIENT_CLAIMS.iter().find_map(|name| Some((name, text_of(claims, name)?)));
    client.map_or_else(String::new, |(name, client)| format!("{name}:{client}"))
}

/// Returns the token that the policy of the route has verified: a policy of the kind `jwt` accepts only a request
/// with a single header `Authorization`.
pub(super) fn bearer_token(fields: FieldLines<'_>) -> Option<CallerToken> {
    let value = fields.all("authorization").next()?;
    let (scheme, token) = value.as_str()?.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    is_bearer.then(|| CallerToken::new(token.trim_ascii()))
}

fn text_of<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c str> {
    claims.get(name).and_then(Value::as_str)
}

/// Claims with the identifier of an OAuth client (RFC 9068 §2.2, OpenID Connect Core §2).
const CLIENT_CLAIMS: [&str; 2] = ["client_id", "azp"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn identity(user: Option<&str>, claims: Value) -> Identity {
        let claims = serde_json::from_value(claims).unwrap();
        identity_of(Arc::new(VerifiedClient {
            policy: "staff".into(),
            user: user.map(str::to_owned),
            claims,
        }))
    }

    #[test]
    fn token_identifies_its_subject_at_its_issuer() {
        let claims = json!({"iss": "https://login.example", "sub": "ada", "scope": "a b", "groups": ["eng"]});
        let identity = identity(Some("ada"), claims.clone());
        assert_eq!((&*identity.issuer, &*identity.subject), ("https://login.example", "ada"));
        assert_eq!(identity.scopes, ["a", "b"]);
        assert_eq!(Value::Object(identity.claims), claims);
    }

    #[test]
    fn user_with_password_has_the_claim_sub() {
        let identity = identity(Some("ada"), json!({}));
        assert_eq!((&*identity.issuer, &*identity.subject), ("policy staff", "ada"));
        assert_eq!(Value::Object(identity.claims), json!({"sub": "ada"}));
    }

    #[test]
    fn token_without_subject_identifies_the_oauth_client() {
        assert_eq!(identity(None, json!({"client_id": "app"})).subject, "client_id:app");
        assert_eq!(identity(None, json!({"azp": "app", "exp": 1})).subject, "azp:app");
        assert_eq!(identity(None, json!({"exp": 1})).subject, "");
    }
}
