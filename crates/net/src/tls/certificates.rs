//! Reads certificates and keys from files.

use std::fmt;
use std::fs::{self, metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys, RootCertStore};

use super::identity::{Contents, Validity};
use super::verifier::provider;

/// Paths of the files of a certificate and its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateFiles {
    /// The certificate, followed by its intermediate certificates, in PEM.
    pub chain: PathBuf,
    /// The private key, in PEM.
    pub key: PathBuf,
    /// The OCSP response for clients, in DER. [`TlsAcceptor`](super::TlsAcceptor) does not check the
    /// response. The caller must check the response: see
    /// [`TlsAcceptor::withhold`](super::TlsAcceptor::withhold).
    pub ocsp: Option<PathBuf>,
}

/// Error: a certificate or key file has a problem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateError {
    /// The path of the file.
    pub path: PathBuf,
    /// The problem of the file.
    pub problem: CertificateProblem,
}

/// Problem with a certificate or a key.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CertificateProblem {
    /// The certificate has expired.
    Expired,
    /// A certificate cannot be parsed.
    InvalidCertificate,
    /// The key is invalid, or its type is not supported.
    InvalidKey,
    /// The file is not valid PEM.
    InvalidPem,
    /// The key does not belong to the certificate.
    KeyOfAnother,
    /// The file contains no certificate.
    NoCertificate,
    /// The file contains no private key.
    NoKey,
    /// The certificate is not valid yet.
    NotYetValid,
    /// The TLS library rejects the certificate or the TLS settings. Contains the reason.
    Refused(String),
    /// The file cannot be read. Contains the reason.
    Unreadable(String),
    /// The certificate has an X.509 version other than 3. Contains the version. Only version 3 has
    /// extensions, and the host names are in an extension.
    UnsupportedVersion(u8),
}

/// Contents of a certificate file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateContents {
    /// The subject alternative names of the certificate, as text: host names, IP addresses, mail addresses
    /// and URIs.
    pub names: Vec<String>,
    /// The period in which the certificate is valid.
    pub validity: Validity,
    /// The certificate, followed by its intermediate certificates, in DER.
    pub chain: Vec<Vec<u8>>,
}

/// A certificate and its key, ready for use in rustls.
#[derive(Clone)]
pub(super) struct Loaded {
    pub(super) certified: Arc<CertifiedKey>,
    pub(super) names: Vec<String>,
    pub(super) validity: Validity,
}

impl CertificateFiles {
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.chain), Some(&self.key), self.ocsp.as_ref()].into_iter().flatten().map(|path| &**path)
    }

    /// Reads the files and returns their contents.
    ///
    /// # Errors
    /// A file cannot be read or used.
    pub fn contents(&self) -> Result<CertificateContents, CertificateError> {
        self.load(&provider()).map(|loaded| loaded.contents())
    }

    pub(super) fn load(&self, provider: &CryptoProvider) -> Result<Loaded, CertificateError> {
        let chain = read_certificates(&self.chain)?;
        let contents = chain.first().and_then(|certificate| Contents::read(certificate));
        let contents =
            contents.ok_or_else(|| problem(&self.chain, CertificateProblem::InvalidCertificate))?;
        if contents.version != X509_VERSION {
            return Err(problem(&self.chain, CertificateProblem::UnsupportedVersion(contents.version)));
        }
        let key = read_key(&self.key)?;
        let mut certified = CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                problem(&self.key, CertificateProblem::KeyOfAnother)
            }
            Error::InvalidCertificate(reason) => refused_certificate(&self.chain, &reason),
            _ => problem(&self.key, CertificateProblem::InvalidKey),
        })?;
        if let Some(path) = &self.ocsp {
            certified.ocsp = Some(fs::read(path).map_err(|error| unreadable(path, &error))?);
        }
        let names = contents.names.iter().map(ToString::to_string).collect();
        let validity = contents.validity;
        Ok(Loaded { certified: Arc::new(certified), names, validity })
    }
}

impl Loaded {
    /// Returns `true` if this certificate is equal to `certificate`. `certificate` is in DER.
    pub(super) fn is_of(&self, certificate: &[u8]) -> bool {
        self.certified.cert.first().is_some_and(|own| own.as_ref() == certificate)
    }

    pub(super) fn contents(&self) -> CertificateContents {
        let chain = self.certified.cert.iter().map(|certificate| certificate.to_vec()).collect();
        CertificateContents { names: self.names.clone(), validity: self.validity, chain }
    }
}

impl Validity {
    /// Returns the problem of a certificate that is not valid at `now`. Returns `None` if the certificate
    /// is valid.
    pub fn problem_at(&self, now: SystemTime) -> Option<CertificateProblem> {
        match () {
            () if now > self.not_after => Some(CertificateProblem::Expired),
            () if now < self.not_before => Some(CertificateProblem::NotYetValid),
            () => None,
        }
    }
}

/// Reads the certificates in the file `path`. A file without certificates is an error.
pub(super) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let pem = fs::read(path).map_err(|error| unreadable(path, &error))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err(problem(path, CertificateProblem::NoCertificate)),
        Ok(certificates) => Ok(certificates),
        Err(_) => Err(problem(path, CertificateProblem::InvalidPem)),
    }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, CertificateError> {
    let pem = fs::read(path).map_err(|error| unreadable(path, &error))?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| match error {
        pem::Error::NoItemsFound => problem(path, CertificateProblem::NoKey),
        _ => problem(path, CertificateProblem::InvalidPem),
    })
}

/// Reads the trusted root certificates in the files `paths`.
pub(super) fn read_roots(paths: &[PathBuf]) -> Result<RootCertStore, CertificateError> {
    let mut roots = RootCertStore::empty();
    for path in paths {
        for certificate in read_certificates(path)? {
            let added = roots.add(certificate);
            added.map_err(|error| match error {
                Error::InvalidCertificate(reason) => refused_certificate(path, &reason),
                _ => problem(path, CertificateProblem::InvalidCertificate),
            })?;
        }
    }
    Ok(roots)
}

pub(super) fn problem(path: &Path, problem: CertificateProblem) -> CertificateError {
    CertificateError { path: path.to_owned(), problem }
}

/// Returns the error for a certificate that the TLS library rejects for `reason`.
fn refused_certificate(path: &Path, reason: &rustls::CertificateError) -> CertificateError {
    match reason {
        rustls::CertificateError::BadEncoding => problem(path, CertificateProblem::InvalidCertificate),
        reason => problem(path, CertificateProblem::Refused(reason.to_string())),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> CertificateError {
    problem(path, CertificateProblem::Unreadable(error.to_string()))
}

impl CertificateError {
    /// Returns a hint that tells the operator how to fix the problem.
    pub const fn hint(&self) -> &'static str {
        match self.problem {
            CertificateProblem::Expired => {
                "renew the certificate; the server reloads it when the file changes"
            }
            CertificateProblem::InvalidCertificate | CertificateProblem::NoCertificate => {
                "the file must have `-----BEGIN CERTIFICATE-----` blocks: first the server certificate, then its issuers"
            }
            CertificateProblem::InvalidKey => {
                "use RSA with at least 2048 bits, ECDSA (P-256, P-384, P-521) or Ed25519"
            }
            CertificateProblem::InvalidPem => {
                "convert the file with `openssl x509 -inform der` or `openssl pkey -inform der`"
            }
            CertificateProblem::KeyOfAnother => {
                "use the key that the certificate was issued for; one of the two files may be outdated"
            }
            CertificateProblem::NoKey => {
                "the file must have a `-----BEGIN PRIVATE KEY-----` block without a password"
            }
            CertificateProblem::NotYetValid => "check the clock of this machine",
            CertificateProblem::Refused(_) => "check that this is the right file for this setting",
            CertificateProblem::Unreadable(_) => "check the path, and that this user may read the file",
            CertificateProblem::UnsupportedVersion(_) => {
                "issue the certificate again with extensions: `openssl x509 -req` writes version 3 with `-extfile FILE`, \
                 where FILE has a line such as `subjectAltName=DNS:www.example`"
            }
        }
    }
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.problem {
            CertificateProblem::Expired => write!(f, "the certificate in `{path}` has expired"),
            CertificateProblem::InvalidCertificate => {
                write!(f, "cannot parse a certificate in `{path}`")
            }
            CertificateProblem::InvalidKey => write!(f, "cannot use the key in `{path}`"),
            CertificateProblem::InvalidPem => write!(f, "`{path}` is not a PEM file"),
            CertificateProblem::KeyOfAnother => {
                write!(f, "the key in `{path}` belongs to another certificate")
            }
            CertificateProblem::NoCertificate => write!(f, "there is no certificate in `{path}`"),
            CertificateProblem::NoKey => write!(f, "there is no private key in `{path}`"),
            CertificateProblem::NotYetValid => write!(f, "the certificate in `{path}` is not valid yet"),
            CertificateProblem::Refused(reason) => write!(f, "cannot use `{path}`: {reason}"),
            CertificateProblem::Unreadable(reason) => write!(f, "cannot read `{path}`: {reason}"),
            CertificateProblem::UnsupportedVersion(version) => write!(
                f,
                "the certificate in `{path}` has version {version} of X.509: only version 3 is supported"
            ),
        }
    }
}

impl std::error::Error for CertificateError {}

/// The supported version of X.509 (RFC 5280 §4.1.2.1).
const X509_VERSION: u8 = 3;

/// Attributes of several files. A comparison with later attributes shows if a file has changed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Stamps(Vec<(PathBuf, Option<Stamp>)>);

/// Attributes of a file. At least one attribute differs after the file has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    modified: Option<SystemTime>,
    changed: (i64, i64),
    length: u64,
    inode: u64,
}

impl Stamps {
    /// Returns the current attributes of the files `paths`.
    pub(super) fn of<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Self {
        Self(paths.into_iter().map(|path| (path.to_owned(), Stamp::of(path))).collect())
    }

    /// Returns the current attributes of the files in `self`.
    pub(super) fn again(&self) -> Self {
        Self::of(self.0.iter().map(|(path, _)| &**path))
    }
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = metadata(path).ok()?;
        Some(Self {
            modified: metadata.modified().ok(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            length: metadata.len(),
            inode: metadata.ino(),
        })
    }
}
