//! Clients that show a JSON Web Token (RFC 7519) as `Authorization: Bearer`.
//!
//! A key says which algorithms it is for, and a token is only ever checked by keys that are for its
//! algorithm: a public key cannot become a secret, and there is no algorithm `none`.

mod decide;
pub(super) mod source;
#[cfg(test)]
mod tests;

use std::fmt;

use thruway_jwt::JwtError;
pub use thruway_jwt::{InvalidJwtKeys, JwtAlgorithm, JwtKeys, JwtRules};
use thruway_server::Request;

use super::credentials::{Presented, authorization};
use super::refusal::Refusal;
use super::verdict::Verdict;

pub use source::JwtKeySource;

use source::Keys;

/// Which tokens are believed.
#[derive(Clone, PartialEq, Debug)]
pub struct JwtConfig {
    /// The keys that tokens are signed with.
    pub keys: JwtKeySource,
    /// Conditions that tokens must meet.
    pub rules: JwtRules,
    /// Headers, and the claims that they send to the upstream. A list of texts is sent with commas, and
    /// refused if a text in it has one. A single text is sent as it is, also with commas, and then reads as a
    /// list.
    pub fields: Vec<(String, String)>,
    /// Realm of the challenge. Default: the name of the policy.
    pub realm: Option<String>,
}

/// The policy.
#[derive(Debug)]
pub(super) struct Jwt {
    config: JwtConfig,
    keys: Keys,
}

impl JwtConfig {
    /// Tokens that were signed with one of `keys` and have not expired.
    pub fn new(keys: impl Into<JwtKeySource>) -> Self {
        Self { keys: keys.into(), rules: JwtRules::default(), fields: Vec::new(), realm: None }
    }
}

impl Jwt {
    pub(super) fn new(config: JwtConfig) -> Self {
        Self { keys: Keys::of(&config.keys), config }
    }

    /// Knows the keys that `before` has had fetched from now on, if it would have the same fetched.
    pub(super) fn take_keys_of(&mut self, before: &Self) {
        self.keys.take(&before.keys);
    }

    pub(super) fn decide(&self, request: &Request<'_>) -> Verdict<'_> {
        let token = match authorization(request.head(), "Bearer") {
            Presented::None => return Verdict::Refuse(self.challenge(true)),
            Presented::One(token) => token,
            Presented::Several => return Verdict::Refuse(self.challenge(false)),
        };
        let certificate = request.connection().client_certificate();
        let certificate = certificate.map(|certificate| certificate.fingerprint.as_str());
        let now = request.worker().clock().time_of_day();
        let JwtConfig { rules, fields, .. } = &self.config;
        let told = |keys: &JwtKeys| decide::told(token, rules, fields, keys, certificate, now);
        match self.keys.read(told) {
            Some(Ok(told)) => Verdict::Tell(told),
            Some(Err(JwtError::Invalid)) => Verdict::Refuse(self.challenge(false)),
            Some(Err(JwtError::UnknownKey)) => self.again_or(self.challenge(false)),
            None => self.again_or(Refusal::NoKeys),
        }
    }

    /// Decides again after the keys were fetched, if they are fetched.
    fn again_or(&self, otherwise: Refusal) -> Verdict<'_> {
        match self.keys.refreshed() {
            Some(refreshed) => Verdict::Again { refreshed, otherwise },
            None => Verdict::Refuse(otherwise),
        }
    }

    fn challenge(&self, is_missing: bool) -> Refusal {
        Refusal::Credentials {
            scheme: "Bearer",
            realm: self.config.realm.clone(),
            // RFC 6750 §3.1: a request without a token gets no further details.
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
