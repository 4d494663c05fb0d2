//! Verification of access tokens that are JSON Web Tokens (RFC 9068).

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use serde_json::Value;
use thruway_jwt::{InvalidJwtKeys, JwtError, JwtKeys, JwtRules};
use thruway_mcp::schema::JsonObject;
use thruway_net::Clock;

use super::{Identity, InvalidToken, VerifyToken};

/// Verifies JSON Web Tokens of one issuer for one audience. A token must be signed with one of the issuer's
/// keys. Clones share the keys.
///
/// The verifier rejects these tokens:
/// - Tokens with critical header parameters (`crit`).
/// - Tokens that are bound to a key (`cnf`, as for DPoP), because the verifier does not check that the
///   sender possesses this key.
/// - Tokens that are recognizable as ID tokens.
/// - Tokens with a type (`typ`) other than `JWT`, `JOSE` and `at+jwt`.
///
/// ```
/// use thruway_mcp_server::{InvalidKeys, JwtVerifier};
///
/// // The key set is public, so anyone could sign with a symmetric key (`oct`) in it. Therefore, the
/// // verifier ignores such keys.
/// let keys = r#"{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}"#;
/// let verifier = JwtVerifier::new("https://login.example", "https://mcp.example/mcp", keys);
/// assert!(matches!(verifier, Err(InvalidKeys)));
/// ```
#[derive(Clone)]
pub struct JwtVerifier {
    rules: AccessTokenRules,
    keys: Arc<ArcSwap<JwtKeys>>,
}

/// The rules by which [`JwtVerifier`] checks access tokens (RFC 9068 §4). A custom verifier that manages the
/// issuer's keys differently can use the same rules.
#[derive(Clone, Debug)]
pub struct AccessTokenRules(JwtRules);

/// The error for a text that is not a JSON Web Key Set, or that contains no key for verifying signatures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidKeys;

impl JwtVerifier {
    /// Returns a verifier for tokens that `issuer` issues for `audience`, the URL of the endpoint. `keys`
    /// is the issuer's JSON Web Key Set. The verifier ignores symmetric keys, encryption keys, and RSA keys
    /// with fewer than 2048 bits.
    ///
    /// # Errors
    /// Returns an error if `keys` is not a key set, or contains no usable key.
    pub fn new(
        issuer: impl Into<String>,
        audience: impl Into<String>,
        keys: &str,
    ) -> Result<Self, InvalidKeys> {
        let keys = Arc::new(ArcSwap::from_pointee(JwtKeys::from_set(keys)?));
        Ok(Self { rules: AccessTokenRules::new(issuer, audience), keys })
    }

    /// Accepts only tokens with the type `at+jwt` (RFC 9068 §4). By default, the verifier also accepts tokens
    /// with the type `JWT` or `JOSE`, and tokens without a type, because many issuers do not use the type
    /// `at+jwt`. Call this method if your issuer gives access tokens the type `at+jwt`. The verifier then
    /// rejects all other tokens of the issuer, such as ID tokens.
    #[must_use]
    pub fn at_jwt_only(self) -> Self {
        Self { rules: self.rules.at_jwt_only(), ..self }
    }

    /// Replaces the keys. Call this method when the issuer changes its keys. If the new set has no usable
    /// keys, the verifier rejects every token. Concurrent verifications do not wait for the replacement.
    ///
    /// # Errors
    /// Returns an error if `keys` is not a key set. The verifier then continues to use the previous keys.
    pub fn replace_keys(&self, keys: &str) -> Result<(), InvalidKeys> {
        self.keys.store(Arc::new(JwtKeys::from_issuer(keys)?));
        Ok(())
    }
}

impl AccessTokenRules {
    /// Returns rules for tokens that `issuer` issues for `audience`, the URL of the endpoint.
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>) -> Self {
        let (issuer, audience) = (Some(issuer.into()), vec![audience.into()]);
        Self(JwtRules { issuer, audience, allow_id_tokens: false, ..JwtRules::default() })
    }

    /// Accepts only tokens with the type `at+jwt`, as [`JwtVerifier::at_jwt_only`] does.
    #[must_use]
    pub fn at_jwt_only(self) -> Self {
        Self(JwtRules { types: vec!["at+jwt".to_owned()], ..self.0 })
    }

    /// Verifies `token` with `keys`, and returns the caller that the claims of the token describe.
    ///
    /// # Errors
    /// Returns an error if the token is invalid, or if the token names a key that is not in `keys`
    /// ([`JwtError::UnknownKey`]).
    pub fn verify(&self, token: &str, keys: &JwtKeys) -> Result<Identity, JwtError> {
        let now = Clock::system().time_of_day().duration_since(SystemTime::UNIX_EPOCH);
        let claims = self.0.verify(token.as_bytes(), keys, now.unwrap_or(Duration::ZERO))?;
        identity(claims).ok_or(JwtError::Invalid)
    }
}

impl VerifyToken for JwtVerifier {
    fn verify(&self, token: &str) -> Result<Identity, InvalidToken> {
        self.rules.verify(token, &self.keys.load()).map_err(|_| InvalidToken)
    }
}

/// Returns the caller that the claims describe. Returns `None` if the issuer or the subject is missing,
/// because the server needs both to identify the caller.
fn identity(claims: JsonObject) -> Option<Identity> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(Identity::new(text("iss")?, text("sub")?, claims))
}

impl fmt::Debug for JwtVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtVerifier").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl From<InvalidJwtKeys> for InvalidKeys {
    fn from(_: InvalidJwtKeys) -> Self {
        Self
    }
}

impl fmt::Display for InvalidKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text is not a JSON Web Key Set with a key that can verify signatures")
    }
}

impl std::error::Error for InvalidKeys {}
