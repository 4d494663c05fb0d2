//! Certificates that prove the control of a name to an ACME server (RFC 8737). Only clients that offer
//! nothing but the validation protocol get them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::ClientHello;
use rustls::sign::CertifiedKey;

use super::verifier::provider;

/// The protocol with which ACME servers validate a name. It carries no data (RFC 8737 §6.2).
pub const ALPN_ACME: &[u8] = b"acme-tls/1";

/// The challenge certificates that an ACME server gets when it validates a name. Clones share their state, so
/// that all listeners can present them.
#[derive(Clone, Default)]
pub struct TlsAlpnChallenges(Arc<RwLock<ByName>>);

/// Certificates by lower-case name.
type ByName = HashMap<Box<str>, Arc<CertifiedKey>>;

/// The error for an invalid private key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnusableChallenge;

impl TlsAlpnChallenges {
    /// Presents `certificate` to ACME servers that validate `name`. Replaces an earlier certificate for this
    /// name. `certificate` is in DER, and `key` is its private key in PKCS#8.
    ///
    /// # Errors
    /// The key is invalid.
    pub fn show(&self, name: &str, certificate: Vec<u8>, key: Vec<u8>) -> Result<(), UnusableChallenge> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
        let key = provider().key_provider.load_private_key(key).map_err(|_| UnusableChallenge)?;
        // Does not use `from_der`, which parses the certificate: webpki does not know the critical extension
        // that this certificate must have.
        let certified = CertifiedKey::new(vec![CertificateDer::from(certificate)], key);
        let mut by_name = self.0.write().unwrap_or_else(PoisonError::into_inner);
        by_name.insert(name.to_ascii_lowercase().into(), Arc::new(certified));
        Ok(())
    }

    /// Removes the certificate for `name`.
    pub fn remove(&self, name: &str) {
        let mut by_name = self.0.write().unwrap_or_else(PoisonError::into_inner);
        by_name.remove(&*name.to_ascii_lowercase());
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

/// Returns `true` if `hello` is from an ACME server that validates a name: it offers only that protocol.
pub(super) fn is_validation(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|mut offers| offers.next() == Some(ALPN_ACME) && offers.next().is_none())
}

/// Clones that share their state are equal.
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
        f.write_str("cannot use the private key of the ACME challenge certificate")
    }
}

impl std::error::Error for UnusableChallenge {}
