//! Names of keys.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// Name of a value in the store. The store adds its prefix and the version of the format, as in
/// `thruway:v1:rate:login`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StoreKey {
    /// The kind and the name, as in `rate:login`.
    text: String,
}

impl StoreKey {
    /// Returns the key `name` of a kind. All callers that use the values for the same purpose use the same
    /// `kind`. Do not put secrets into a name. If `name` has more than 128 bytes, the key contains its
    /// SHA-256 value instead.
    pub fn new(kind: &'static str, name: &str) -> Self {
        if name.len() <= NAME_MAX {
            return Self { text: format!("{kind}:{name}") };
        }
        let digest = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(name.as_bytes()));
        Self { text: format!("{kind}:sha256={digest}") }
    }

    /// Returns the kind and the name, without the prefix of the store.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Maximum number of bytes of a name.
const NAME_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_become_short_and_stay_different() {
        let (a, b) = (StoreKey::new("rate", &"a".repeat(5000)), StoreKey::new("rate", &"b".repeat(5000)));
        assert_ne!(a, b);
        assert!(a.as_str().len() < 64, "{a}");
        assert_eq!(StoreKey::new("rate", "login").as_str(), "rate:login");
    }
}
