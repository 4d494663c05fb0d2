//! Certificates that prove the control of a host name to an ACME server (RFC 8737). Only clients whose
//! single ALPN protocol is `acme-tls/1` get these certificates.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::ClientHello;
use rustls::sign::CertifiedKey;

use super::verifier::provider;

/// ALPN protocol with which ACME servers validate a host name. Connections with this protocol carry no data
/// (RFC 8737 §6.2).
pub const ALPN_ACME: &[u8] = b"acme-tls/1";

/// The challenge certificates that ACME servers get when they validate host names. Clones share the
/// certificates, so that all listeners can present them.
#[derive(Clone, Default)]
pub struct TlsAlpnChallenges(Arc<RwLock<ByName>>);

/// Certificates by host name, in lower case.
type ByName = HashMap<Box<str>, Arc<CertifiedKey>>;

/// Error: the private key of a challenge certificate is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnusableChallenge;

impl TlsAlpnChallenges {
    /// Presents `certificate` to ACME servers that validate `name`. Replaces an earlier certificate for
    /// `name`. `certificate` is in DER. `key` is the private key of the certificate, in PKCS#8.
    ///
    /// # Errors
    /// The private key is invalid.
    pub fn show(&self, name: &str, certificate: Vec<u8>, key: Vec<u8>) -> Result<(), UnusableChallenge> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
        let key = provider().key_provider.load_private_key(key).map_err(|_| UnusableChallenge)?;
        // Does not use `from_der`, because `from_der` parses the certificate with webpki. webpki rejects
        // challenge certificates, because webpki does not know their critical extension.
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

/// Returns `true` if `hello` is from an ACME server that validates a host name. Such a server offers only
/// the protocol [`ALPN_ACME`].
pub(super) fn is_validation(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|mut offers| offers.next() == Some(ALPN_ACME) && offers.next().is_none())
}

/// Two values are equal if they share their certificates.
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
