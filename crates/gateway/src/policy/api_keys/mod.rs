//! Authentication with API keys.
//!
//! The policy stores only SHA-256 digests of API keys. Before a comparison, the policy hashes both digests
//! again with a random secret of the process. Because of this secret, the time of a comparison reveals
//! nothing about the stored digests. API keys must be random. An attacker with the digest of a common word
//! can find the word by computing the digests of many words.

mod decide;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use thruway_server::Request;

use super::credentials::{Digest, DigestKey};
use super::verdict::Verdict;

pub use decide::KeyPlace;

/// Settings of the API key policy: the keys, and the place in a request where clients send a key.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKeysConfig {
    /// The place in a request where clients send their API key.
    pub place: KeyPlace,
    /// Names of the owners of keys, with the digest of each key. An owner may have several keys, so that an
    /// old key can stay valid while a new key is introduced.
    pub keys: Vec<(String, KeyDigest)>,
    /// Name of the request header in which the gateway sends the name of the key's owner to the upstream.
    /// Default: no header.
    pub user_field: Option<String>,
}

/// The SHA-256 digest of an API key, written as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyDigest(Digest);

/// The error for a text that is not a valid digest of an API key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidKeyDigest;

#[derive(Debug)]
pub(super) struct ApiKeys {
    place: KeyPlace,
    user_field: Option<String>,
    digest_key: DigestKey,
    names: HashMap<Digest, Arc<str>>,
}

impl ApiKeys {
    pub(super) fn new(config: ApiKeysConfig) -> Self {
        let digest_key = DigestKey::random();
        let names = config.keys.into_iter();
        let names = names.map(|(name, key)| (digest_key.digest(&[&key.0]), name.into())).collect();
        Self { place: config.place, user_field: config.user_field, digest_key, names }
    }

    pub(super) fn decide(&self, request: &Request<'_>) -> Verdict<'_> {
        match decide::presented(request.head(), &self.place) {
            decide::Key::None => Verdict::Refuse(self.place.challenge(true)),
            decide::Key::Unusable => Verdict::Refuse(self.place.challenge(false)),
            decide::Key::Shown(key) => match self.name_of(&key) {
                None => Verdict::Refuse(self.place.challenge(false)),
                Some(name) => Verdict::of_user(self.user_field.as_deref(), name),
            },
        }
    }

    fn name_of(&self, key: &[u8]) -> Option<&str> {
        let digest: Digest = Sha256::digest(key).into();
        self.names.get(&self.digest_key.digest(&[&digest])).map(|name| &**name)
    }
}

impl FromStr for KeyDigest {
    type Err = InvalidKeyDigest;

    fn from_str(text: &str) -> Result<Self, InvalidKeyDigest> {
        let digits = text.strip_prefix("sha256:").ok_or(InvalidKeyDigest)?.as_bytes();
        if digits.len() != 64 {
            return Err(InvalidKeyDigest);
        }
        let mut digest = Digest::default();
        for (byte, pair) in digest.iter_mut().zip(digits.chunks(2)) {
            let value = |digit: u8| char::from(digit).to_digit(16).ok_or(InvalidKeyDigest);
            *byte = u8::try_from(value(pair[0])? * 16 + value(pair[1])?).map_err(|_| InvalidKeyDigest)?;
        }
        Ok(Self(digest))
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyDigest")
    }
}

impl fmt::Debug for ApiKeysConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ApiKeysConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {} keys in {}", self.keys.len(), self.place)
    }
}

impl fmt::Display for InvalidKeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write the digest of the key: `sha256:` and 64 hexadecimal digits")
    }
}

impl std::error::Error for InvalidKeyDigest {}
