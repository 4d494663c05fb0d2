//! The source of the keys for tokens: the config, or a URL where the issuer publishes its current keys.

use std::pin::Pin;
use std::sync::OnceLock;

use thruway_client::{DocumentConfig, FetchedDocument, KeptDocument};
use thruway_jwt::{InvalidJwtKeys, JwtAlgorithm, JwtKeys};

/// The source of the keys for verifying tokens.
#[derive(Clone, PartialEq, Debug)]
pub enum JwtKeySource {
    /// Keys in the config.
    Given(JwtKeys),
    /// A JSON Web Key Set (RFC 7517 §5) at a URL. The policy fetches the set again before the set expires,
    /// and when a token names an unknown key. If the new set contains no usable key, all tokens are refused.
    Url(DocumentConfig),
}

/// The keys for verifying tokens, and their source.
#[derive(Debug)]
pub(super) enum Keys {
    Given(JwtKeys),
    /// Keys from a URL. The policy fetches the keys when the first token arrives, so that checking a config
    /// contacts no server.
    Fetched {
        config: DocumentConfig,
        document: OnceLock<KeptDocument<JwtKeys>>,
        /// Keys that the policy of the previous config fetched from the same URL.
        known: Option<FetchedDocument<JwtKeys>>,
    },
}

/// A future that resolves after a fetch of the keys has succeeded or failed.
pub(crate) type Refreshed = Pin<Box<dyn Future<Output = ()> + Send>>;

impl JwtKeySource {
    /// Returns `true` if the source may contain a key for `algorithm`. A URL never provides secret keys.
    pub fn may_be_for(&self, algorithm: JwtAlgorithm) -> bool {
        match self {
            Self::Given(keys) => keys.are_for(algorithm),
            Self::Url(_) => {
                !matches!(algorithm, JwtAlgorithm::HS256 | JwtAlgorithm::HS384 | JwtAlgorithm::HS512)
            }
        }
    }
}

impl Keys {
    pub(super) fn of(source: &JwtKeySource) -> Self {
        match source {
            JwtKeySource::Given(keys) => Self::Given(keys.clone()),
            JwtKeySource::Url(config) => {
                let accept = "application/jwk-set+json, application/json".to_owned();
                let config = DocumentConfig { accept, ..config.clone() };
                Self::Fetched { config, document: OnceLock::new(), known: None }
            }
        }
    }

    /// Uses the keys of `before`, if both sources have the same URL and the same trusted roots.
    pub(super) fn take(&mut self, before: &Self) {
        let (Self::Fetched { config, document, known }, Self::Fetched { config: other, document: kept, .. }) =
            (self, before)
        else {
            return;
        };
        if config == other {
            // Both policies share the fetched document, so that the keys are fetched only once.
            document.clone_from(kept);
        }
        if config.url == other.url && config.tls == other.tls {
            *known = before.fetched();
        }
    }

    /// Returns the keys of the last successful fetch, without starting a new fetch.
    fn fetched(&self) -> Option<FetchedDocument<JwtKeys>> {
        match self {
            Self::Given(_) => None,
            Self::Fetched { document, known, .. } => {
                document.get().and_then(KeptDocument::fetched).or_else(|| known.clone())
            }
        }
    }

    /// Calls `look` with the keys, and returns the result of `look`. Returns `None` if the keys were never
    /// fetched, or if they are too old.
    pub(super) fn read<R>(&self, look: impl FnOnce(&JwtKeys) -> R) -> Option<R> {
        match self {
            Self::Given(keys) => Some(look(keys)),
            Self::Fetched { config, document, known } => {
                document.get_or_init(|| fetch(config, known.clone())).read(look)
            }
        }
    }

    /// Starts a fetch of the keys. Returns `None` if a fetch cannot yield new keys.
    pub(super) fn refreshed(&self) -> Option<Refreshed> {
        match self {
            Self::Given(_) => None,
            Self::Fetched { document, .. } => Some(Box::pin(document.get()?.refreshed()?)),
        }
    }
}

fn fetch(config: &DocumentConfig, known: Option<FetchedDocument<JwtKeys>>) -> KeptDocument<JwtKeys> {
    let url = config.url.as_str().to_owned();
    let read = move |content: &[u8]| {
        let keys = JwtKeys::from_issuer(&String::from_utf8_lossy(content))?;
        if keys.is_empty() {
            tracing::warn!("the key set at `{url}` has no usable key: all tokens are refused");
        }
        Ok::<_, InvalidJwtKeys>(keys)
    };
    KeptDocument::start_with(config.clone(), known, read)
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
