//! Certificates that show an ACME server who has a name (RFC 8737): only to clients that ask for nothing
//! else.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::ClientHello;
use rustls::sign::CertifiedKey;

use super::verifier::provider;

/// The protocol that ACME servers ask for to validate a name, and in which nothing is said (RFC 8737 §6.2).
pub const ALPN_ACME: &[u8] = b"acme-tls/1";

/// What ACME servers are shown that validate names. Clones are the same, so that all listeners may show it.
#[derive(Clone, Default)]
pub struct TlsAlpnChallenges(Arc<RwLock<ByName>>);

/// By names in lower case.
type ByName = HashMap<Box<str>, Arc<CertifiedKey>>;

/// A key that is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnusableChallenge;

impl TlsAlpnChallenges {
    /// Shows `certificate`, in DER, whose key is `key` in PKCS#8, to those who validate `name`; instead of
    /// another one, if there is.
    ///
    /// # Errors
    /// The key is none.
    pub fn show(&self, name: &str, certificate: Vec<u8>, key: Vec<u8>) -> Result<(), UnusableChallenge> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
        let key = provider().key_provider.load_private_key(key).map_err(|_| UnusableChallenge)?;
        // Not `from_der`, which reads the certificate: what must be in it is critical, and nothing that
        // webpki knows.
        let certified = CertifiedKey::new(vec![CertificateDer::from(certificate)], key);
        let mut by_name = self.0.write().unwrap_or_else(PoisonError::into_inner);
        by_name.insert(name.to_ascii_lowercase().into(), Arc::new(certified));
        Ok(())
    }

    /// Shows nothing for `name` any more.
    pub fn remove(&self, name: &str) {
        let mut by_name = self.0.write().unwrap_or_else(PoisonError::into_inner);
        by_name.remove(&*name.to_ascii_lowercase());
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

/// Whether `hello` is of an ACME server that validates a name: it offers that protocol and no other.
pub(super) fn is_validation(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|mut offers| offers.next() == Some(ALPN_ACME) && offers.next().is_none())
}

/// Those that change together are the same.
impl PartialEq for TlsAlpnChallenges {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TlsAlpnChallenges {}

impl fmt::Debug for TlsAlpnChallenges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsAlpnChallenges").finish_non_exhaustive()
    }
}

impl fmt::Display for UnusableChallenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the key of a challenge cannot be used")
    }
}

impl std::error::Error for UnusableChallenge {}
