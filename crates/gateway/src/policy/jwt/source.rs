//! Where keys come from: from the config, or by a URL, and then they are those that the issuer has just now.

use std::pin::Pin;
use std::sync::OnceLock;

use thruway_client::{DocumentConfig, KeptDocument};
use thruway_jwt::{JwtAlgorithm, JwtKeys};

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
    /// They are fetched from the first token on: a config that is only looked at asks nobody.
    Fetched {
        config: DocumentConfig,
        document: OnceLock<KeptDocument<JwtKeys>>,
        /// What another config has had fetched from there.
        known: Option<JwtKeys>,
    },
}

/// It is over when keys have been fetched, or not.
pub(in crate::policy) type Refreshed = Pin<Box<dyn Future<Output = ()> + Send>>;

impl JwtKeySource {
    /// Whether there may be a key for `algorithm`: secrets are not fetched.
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

    /// Takes over what `before` has, if it comes from the same place and from those who are trusted there.
    pub(super) fn take(&mut self, before: &Self) {
        let (Self::Fetched { config, document, known }, Self::Fetched { config: other, document: kept, .. }) =
            (self, before)
        else {
            return;
        };
        if config == other {
            // The same document goes on to be fetched.
            document.clone_from(kept);
        }
        if config.url == other.url && config.tls == other.tls {
            *known = before.present();
        }
    }

    /// Those that are there, without anybody being asked.
    fn present(&self) -> Option<JwtKeys> {
        match self {
            Self::Given(keys) => Some(keys.clone()),
            Self::Fetched { document, known, .. } => {
                let fetched = document.get().and_then(|document| document.read(JwtKeys::clone));
                fetched.or_else(|| known.clone())
            }
        }
    }

    /// What `look` makes of them; `None` as long as there are none.
    pub(super) fn read<R>(&self, look: impl FnOnce(&JwtKeys) -> R) -> Option<R> {
        match self {
            Self::Given(keys) => Some(look(keys)),
            Self::Fetched { config, document, known } => {
                document.get_or_init(|| fetch(config, known.clone())).read(look)
            }
        }
    }

    /// Has them fetched, if that may bring others.
    pub(super) fn refreshed(&self) -> Option<Refreshed> {
        match self {
            Self::Given(_) => None,
            Self::Fetched { document, .. } => Some(Box::pin(document.get()?.refreshed()?)),
        }
    }
}

fn fetch(config: &DocumentConfig, known: Option<JwtKeys>) -> KeptDocument<JwtKeys> {
    let read = |content: &[u8]| JwtKeys::from_set(&String::from_utf8_lossy(content));
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
