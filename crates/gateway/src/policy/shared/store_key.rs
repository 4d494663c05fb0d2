//! Keys in the store. They do not reveal header values, user names or addresses.

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// A key that all replicas of a fleet compute equally for the same property of a request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct StoreKey([u8; 16]);

/// Computes [`StoreKey`]s with the secret of the fleet. Without the secret, a reader of the store could find common
/// values, such as addresses, by computing their keys.
#[derive(Clone)]
pub(crate) struct StoreKeys(Hmac<Sha256>);

impl StoreKeys {
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        #[expect(clippy::expect_used, reason = "HMAC accepts keys of any length")]
        Self(Hmac::new_from_slice(secret).expect("a key of any length is valid"))
    }

    /// Returns the key for `parts`. `kind` separates values of different properties.
    pub(crate) fn key<'p>(&self, kind: u8, parts: impl Iterator<Item = &'p [u8]>) -> StoreKey {
        let mut mac = self.0.clone();
        mac.update(&[kind]);
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        let mut key = [0; 16];
        key.copy_from_slice(&mac.finalize().into_bytes()[..16]);
        // Zero marks an unused entry.
        key[0] |= 1;
        StoreKey(key)
    }
}

impl StoreKey {
    /// Returns `true` unless this is the default value.
    pub(crate) const fn is_set(&self) -> bool {
        self.0[0] != 0
    }

    /// Returns the name in the store. `policy` is the name of the policy.
    pub(crate) fn name(&self, policy: &str) -> String {
        use std::fmt::Write;

        let mut name = String::with_capacity(policy.len() + 33);
        name.push_str(policy);
        name.push(':');
        for byte in self.0 {
            let _ = write!(name, "{byte:02x}");
        }
        name
    }
}
