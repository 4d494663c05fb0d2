//! Authentication with a JSON Web Token (RFC 7519) in `Authorization: Bearer`.
//!
//! Each key lists its algorithms, and a token is checked only with keys for the algorithm of the token.
//! This rule ensures that a public key cannot be misused as a shared secret. Tokens with the algorithm
//! `none` are always invalid.

pub(super) mod decide;
pub(super) mod source;
#[cfg(test)]
mod tests;

use std::fmt;

use thruway_jwt::JwtError;
pub use thruway_jwt::{InvalidJwtKeys, JwtAlgorithm, JwtKeys, JwtRules};
use thruway_server::Request;

use super::credentials::{PresentedCredentials, authorization};
use super::refusal::Refusal;
use super::verdict::Verdict;

pub use source::JwtKeySource;

use source::Keys;

/// Settings of the token policy: the tokens that the policy accepts.
#[derive(Clone, PartialEq, Debug)]
pub struct JwtConfig {
    /// The keys for verifying the signatures of tokens.
    pub keys: JwtKeySource,
    /// Conditions that tokens must meet.
    pub rules: JwtRules,
    /// Pairs of a request header and a claim. In each header, the gateway sends the value of the claim to the
    /// upstream. A list of strings is sent with commas between the strings. The policy refuses the request if
    /// one of these strings contains a comma. A single string is sent unchanged, even if it contains commas
    /// and so looks like a list.
    pub fields: Vec<(String, String)>,
    /// Realm in the authentication challenge. Default: the name of the policy.
    pub realm: Option<String>,
}

#[derive(Debug)]
pub(super) struct Jwt {
    config: JwtConfig,
    keys: Keys,
}

impl JwtConfig {
    /// Returns settings that accept unexpired tokens signed with one of `keys`.
    pub fn new(keys: impl Into<JwtKeySource>) -> Self {
        Self { keys: keys.into(), rules: JwtRules::default(), fields: Vec::new(), realm: None }
    }
}

impl Jwt {
    pub(super) fn new(config: JwtConfig) -> Self {
        Self { keys: Keys::of(&config.keys), config }
    }

    /// Uses the keys that `before` has fetched, if both policies fetch keys from the same URL.
    pub(super) fn take_keys_of(&mut self, before: &Self) {
        self.keys.take(&before.keys);
    }

    pub(super) fn decide(&self, request: &Request<'_>) -> Verdict<'_> {
        let token = match authorization(request.head(), "Bearer") {
            PresentedCredentials::None => return Verdict::Refuse(self.challenge(true)),
            PresentedCredentials::One(token) => token,
            PresentedCredentials::Several => return Verdict::Refuse(self.challenge(false)),
        };
        let certificate = request.connection().client_certificate();
        let certificate = certificate.map(|certificate| certificate.fingerprint.as_str());
        let now = request.worker().clock().time_of_day();
        let JwtConfig { rules, fields, .. } = &self.config;
        let facts = |keys: &JwtKeys| decide::facts(token, rules, fields, keys, certificate, now);
        match self.keys.read(facts) {
            Some(Ok(facts)) => Verdict::Identify(facts),
            Some(Err(JwtError::Invalid)) => Verdict::Refuse(self.challenge(false)),
            Some(Err(JwtError::UnknownKey)) => self.again_or(self.challenge(false)),
            None => self.again_or(Refusal::NoKeys),
        }
    }

    /// If a fetch can yield new keys, the request waits for the next fetch, and the policy decides again.
    /// If a fetch cannot yield new keys, the policy refuses the request.
    fn again_or(&self, otherwise: Refusal) -> Verdict<'_> {
        match self.keys.refreshed() {
            Some(refreshed) => Verdict::RetryAfterRefresh { refreshed, otherwise },
            None => Verdict::Refuse(otherwise),
        }
    }

    fn challenge(&self, is_missing: bool) -> Refusal {
        Refusal::Credentials {
            scheme: "Bearer",
            realm: self.config.realm.clone(),
            // The challenge to a request without a token contains no further details (RFC 6750 §3.1).
            parameters: if is_missing { "" } else { ", error=\"invalid_token\"" },
            is_missing,
        }
    }
}

impl fmt::Display for JwtConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON Web Token")?;
        if let Some(issuer) = &self.rules.issuer {
            write!(f, " of {issuer}")?;
        }
        if !self.rules.audience.is_empty() {
            write!(f, " for {}", self.rules.audience.join(" or "))?;
        }
        Ok(())
    }
}
