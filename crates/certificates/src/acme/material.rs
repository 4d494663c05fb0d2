//! Creates keys, signing requests, and certificates for `tls-alpn-01` challenges.

use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};

use super::{AcmeError, OrderedNames};
use crate::private_files::pem;

/// A new key, and a certificate signing request (CSR) for the key (RFC 2986).
pub(super) struct SigningRequest {
    key: KeyPair,
    pub(super) der: Vec<u8>,
}

impl SigningRequest {
    /// Creates a new P-256 key, and a CSR for `names` with this key.
    ///
    /// # Errors
    /// The key or the CSR cannot be created.
    pub(super) fn new(names: &OrderedNames) -> Result<Self, AcmeError> {
        Self::for_key(names, KeyPair::generate().map_err(|_| AcmeError::KeyNotMade)?)
    }

    fn for_key(names: &OrderedNames, key: KeyPair) -> Result<Self, AcmeError> {
        let request = params(names.iter())?.serialize_request(&key).map_err(|_| AcmeError::KeyNotMade)?;
        Ok(Self { der: request.der().to_vec(), key })
    }

    /// Returns the private key in PKCS#8.
    pub(super) fn key(&self) -> Vec<u8> {
        self.key.serialize_der()
    }

    /// Creates a CSR for `names` with the existing key `key`, in PKCS#8. Returns `None` if the key is
    /// invalid.
    pub(super) fn with_existing_key(names: &OrderedNames, key: &[u8]) -> Option<Self> {
        let key = KeyPair::try_from(key).ok()?;
        Self::for_key(names, key).ok()
    }

    /// Returns a PEM text with `chain` and then the private key. `chain` is the certificate chain that was
    /// issued for this request.
    pub(super) fn with_key(&self, chain: &str) -> String {
        format!("{}\n{}", chain.trim_end(), pem("PRIVATE KEY", &self.key.serialize_der()))
    }
}

/// Returns the certificate that proves control of `name` in a `tls-alpn-01` handshake, and the key of this
/// certificate (RFC 8737 §3). The certificate and the key are in DER.
pub(super) fn validation_certificate(name: &str, digest: &[u8]) -> Result<(Vec<u8>, Vec<u8>), AcmeError> {
    if digest.len() != DIGEST_BYTES {
        return Err(AcmeError::ChallengeUnusable);
    }
    let mut params = params([name].into_iter())?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate().map_err(|_| AcmeError::KeyNotMade)?;
    let certificate = params.self_signed(&key).map_err(|_| AcmeError::KeyNotMade)?;
    Ok((certificate.der().to_vec(), key.serialize_der()))
}

/// Returns the parameters of a certificate for `names`. The subject of the certificate is empty, because
/// clients check only the subject alternative names.
fn params<'n>(names: impl Iterator<Item = &'n str>) -> Result<CertificateParams, AcmeError> {
    let mut params = CertificateParams::new(names.map(str::to_owned).collect::<Vec<_>>())
        .map_err(|_| AcmeError::KeyNotMade)?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params)
}

/// Length of a SHA-256 digest, in bytes.
const DIGEST_BYTES: usize = 32;
