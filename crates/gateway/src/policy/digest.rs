//! Digests with a key that nobody outside the process knows: what takes how long to compare tells nothing then.

use std::fmt;

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// The key.
pub(super) struct DigestKey(Hmac<Sha256>);

/// A digest.
pub(super) type Digest = [u8; 32];

impl DigestKey {
    /// A new key.
    ///
    /// # Panics
    /// The system gives no random numbers.
    pub(super) fn random() -> Self {
        let mut key = [0; 64];
        getrandom::fill(&mut key).expect("the system has random octets");
        Self(Hmac::new(&key.into()))
    }

    /// The digest of `parts`, each of which is told from the next by its length.
    pub(super) fn digest(&self, parts: &[&[u8]]) -> Digest {
        let mut mac = self.0.clone();
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_from_each_other_and_keys_too() {
        let [key, other] = [DigestKey::random(), DigestKey::random()];
        assert_eq!(key.digest(&[b"ab", b"c"]), key.digest(&[b"ab", b"c"]));
        assert_ne!(key.digest(&[b"ab", b"c"]), key.digest(&[b"a", b"bc"]));
        assert_ne!(key.digest(&[b"a"]), other.digest(&[b"a"]));
    }
}
