//! Where keys come from: from the config, or by a URL, and then they are those that the issuer has just now.

use std::pin::Pin;

use jsonwebtoken::{Algorithm, AlgorithmFamily};
use thruway_client::{DocumentConfig, KeptDocument};

use super::keys::JwtKeys;

/// Where the keys are that tokens are signed with.
#[derive(Clone, PartialEq, Debug)]
pub enum JwtKeySource {
    /// Here.
    Given(JwtKeys),
    /// At a URL, as a JSON Web Key Set (RFC 7517 §5). They are fetched ahead of time, and when a token names one that is not there.
    Url(DocumentConfig),
}

/// Keys as there are at present.
#[derive(Debug)]
pub(super) enum Keys {
    Given(JwtKeys),
    Fetched(KeptDocument<JwtKeys>),
}

/// It is over when keys have been fetched, or not.
pub(in crate::policy) type Refreshed = Pin<Box<dyn Future<Output = ()> + Send>>;

impl JwtKeySource {
    /// Whether there may be a key for `algorithm`: secrets are not fetched.
    pub fn may_be_for(&self, algorithm: Algorithm) -> bool {
        match self {
            Self::Given(keys) => keys.are_for(algorithm),
            Self::Url(_) => algorithm.family() != AlgorithmFamily::Hmac,
        }
    }
}

impl Keys {
    /// Begins to fetch those that are to be fetched.
    pub(super) fn of(source: &JwtKeySource) -> Self {
        match source {
            JwtKeySource::Given(keys) => Self::Given(keys.clone()),
            JwtKeySource::Url(config) => {
                let accept = "application/jwk-set+json, application/json".to_owned();
                let config = DocumentConfig { accept, ..config.clone() };
                Self::Fetched(KeptDocument::start(config, |content| {
                    JwtKeys::from_set(&String::from_utf8_lossy(content))
                }))
            }
        }
    }

    /// What `look` makes of them; `None` as long as there are none.
    pub(super) fn read<R>(&self, look: impl FnOnce(&JwtKeys) -> R) -> Option<R> {
        match self {
            Self::Given(keys) => Some(look(keys)),
            Self::Fetched(document) => document.read(look),
        }
    }

    /// Has them fetched, if that may bring others.
    pub(super) fn refreshed(&self) -> Option<Refreshed> {
        match self {
            Self::Given(_) => None,
            Self::Fetched(document) => Some(Box::pin(document.refreshed()?)),
        }
    }
}

impl From<JwtKeys> for JwtKeySource {
    fn from(keys: JwtKeys) -> Self {
        Self::Given(keys)
    }
}

impl From<DocumentConfig> for JwtKeySource {
    fn from(config: DocumentConfig) -> Self {
        Self::Url(config)
    }
}
