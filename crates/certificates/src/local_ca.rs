//! A local certificate authority (CA) for development. It issues server certificates that clients accept if they
//! trust its root certificate.
//!
//! One directory contains the root certificate, its key, and the issued certificates. All processes of a user share
//! this directory, so the user needs to trust only one root certificate. All files have mode 0600.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use sha1::{Digest, Sha1};
use thruway_net::Clock;
use thruway_net::tls::CertificateFiles;

use crate::private_files::{create_directory, pem, private, replace};

/// A server certificate of the local CA. The certificate contains the names, and no other certificate has the same
/// file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalCertificate {
    directory: PathBuf,
    names: Vec<String>,
}

/// Outcome of [`LocalCertificate::issue`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Issued {
    /// The existing certificate is still valid.
    Kept,
    /// The CA issued a new certificate.
    Certificate,
    /// The CA is new, and it issued a certificate. Clients must trust the new root certificate.
    RootAndCertificate,
}

/// Reason why the local CA could not issue a certificate.
#[derive(Debug)]
pub enum LocalCaError {
    /// A file or directory cannot be read or written. Contains its path and the reason.
    File(PathBuf, io::Error),
    /// The key of the CA is invalid. Contains the path of its file.
    InvalidKey(PathBuf),
    /// A key or a certificate could not be created, for example because a name is not ASCII.
    NotCreated,
}

impl LocalCertificate {
    /// Returns a certificate for `names`: host names, wildcards such as `*.example.com`, or IP addresses. The CA has
    /// the directory `directory`. Call [`issue`](Self::issue) before a server uses the files.
    pub fn new(directory: impl Into<PathBuf>, names: impl IntoIterator<Item = String>) -> Self {
        let mut names: Vec<_> = names.into_iter().map(|name| name.to_ascii_lowercase()).collect();
        names.sort_unstable();
        names.dedup();
        Self { directory: directory.into(), names }
    }

    /// Returns the names of the certificate, in lower case and without duplicates.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the file with the root certificate, which clients must trust.
    pub fn root(&self) -> PathBuf {
        self.directory.join("root.pem")
    }

    /// Returns the files of the certificate. One file contains the certificate and its key.
    pub fn files(&self) -> CertificateFiles {
        let digest = Sha1::digest(self.names.join("\n"));
        let name = digest.iter().take(8).fold(String::new(), |name, byte| format!("{name}{byte:02x}"));
        let path = self.directory.join(format!("{name}.pem"));
        CertificateFiles { chain: path.clone(), key: path, ocsp: None }
    }

    /// Issues the certificate if it is missing or expires in less than 30 days. Creates the CA if it is missing.
    /// A new certificate is valid for 90 days, and a new root certificate for ten years.
    ///
    /// # Errors
    /// A file cannot be read or written, or a certificate cannot be created.
    pub fn issue(&self) -> Result<Issued, LocalCaError> {
        self.issue_at(Clock::system().time_of_day())
    }

    fn issue_at(&self, now: SystemTime) -> Result<Issued, LocalCaError> {
        let (root_path, key_path) = (self.root(), self.directory.join("root.key"));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| LocalCaError::File(path, error)
        };
        create_directory(&self.directory).map_err(failed(&self.directory))?;
        // Another process may use the same directory. The lock ends when the file is closed.
        let lock_path = self.directory.join("lock");
        let lock = private().create(true).truncate(false).open(&lock_path).map_err(failed(&lock_path))?;
        wait_for(&lock).map_err(failed(&lock_path))?;
        let root_files = CertificateFiles { chain: root_path.clone(), key: key_path.clone(), ocsp: None };
        let has_root = is_valid_until(&root_files, now + VALIDITY);
        if has_root && is_valid_until(&self.files(), now + RENEWAL) && self.is_signed_by_root() {
            return Ok(Issued::Kept);
        }
        let key = if has_root { read_key(&key_path)? } else { new_key()? };
        let params = root_params(&key, now);
        if !has_root {
            let root = params.self_signed(&key).map_err(|_| LocalCaError::NotCreated)?;
            let key_pem = pem("PRIVATE KEY", &key.serialize_der());
            replace(&key_path, key_pem.as_bytes()).map_err(failed(&key_path))?;
            replace(&root_path, pem("CERTIFICATE", root.der()).as_bytes()).map_err(failed(&root_path))?;
        }
        let own_key = new_key()?;
        let issuer = Issuer::new(params, key);
        let certificate =
            self.params(now)?.signed_by(&own_key, &issuer).map_err(|_| LocalCaError::NotCreated)?;
        let text = pem("CERTIFICATE", certificate.der()) + &pem("PRIVATE KEY", &own_key.serialize_der());
        let path = self.files().chain;
        replace(&path, text.as_bytes()).map_err(failed(&path))?;
        Ok(if has_root { Issued::Certificate } else { Issued::RootAndCertificate })
    }

    /// Returns `true` if the certificate was issued after the current root certificate was created.
    fn is_signed_by_root(&self) -> bool {
        let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
        let (root, own) = (modified(&self.root()), modified(&self.files().chain));
        root.zip(own).is_some_and(|(root, own)| root <= own)
    }

    fn params(&self, now: SystemTime) -> Result<CertificateParams, LocalCaError> {
        let mut params = CertificateParams::new(self.names.clone()).map_err(|_| LocalCaError::NotCreated)?;
        params.distinguished_name = DistinguishedName::new();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = ((now - CLOCK_ERROR).into(), (now + VALIDITY).into());
        Ok(params)
    }
}

/// Returns the parameters of the root certificate for `key`. The name of the CA contains a part of the digest of the
/// key, so that the CAs of different users have different names.
fn root_params(key: &KeyPair, now: SystemTime) -> CertificateParams {
    let digest = Sha1::digest(key.der_bytes());
    let id = digest.iter().take(4).fold(String::new(), |id, byte| format!("{id}{byte:02x}"));
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("Thruway local CA {id}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params.not_before, params.not_after) = ((now - CLOCK_ERROR).into(), (now + ROOT_VALIDITY).into());
    params
}

/// Locks the file `lock`. Another process needs the lock only while it issues a certificate.
///
/// # Errors
/// The file cannot be locked, or another process keeps the lock too long.
fn wait_for(lock: &File) -> io::Result<()> {
    let mut waited = Duration::ZERO;
    loop {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) if waited < LOCK_WAIT_MAX => {
                thread::sleep(LOCK_INTERVAL);
                waited += LOCK_INTERVAL;
            }
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "another process keeps the file locked"));
            }
            outcome => return outcome.map_err(io::Error::from),
        }
    }
}

/// Returns `true` if the files contain a certificate with its key that is valid until `time`.
fn is_valid_until(files: &CertificateFiles, time: SystemTime) -> bool {
    files.contents().is_ok_and(|contents| contents.validity.not_after > time)
}

fn read_key(path: &Path) -> Result<KeyPair, LocalCaError> {
    let invalid = || LocalCaError::InvalidKey(path.to_owned());
    let key = PrivateKeyDer::from_pem_file(path).map_err(|_| invalid())?;
    KeyPair::try_from(key.secret_der()).map_err(|_| invalid())
}

fn new_key() -> Result<KeyPair, LocalCaError> {
    KeyPair::generate().map_err(|_| LocalCaError::NotCreated)
}

impl std::fmt::Display for LocalCaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path, error) => write!(f, "cannot use `{}` for the local CA: {error}", path.display()),
            Self::InvalidKey(path) => write!(f, "`{}` is not the key of a local CA", path.display()),
            Self::NotCreated => f.write_str("the local CA cannot issue a certificate for these names"),
        }
    }
}

impl std::error::Error for LocalCaError {}

/// Time for which a server certificate is valid.
const VALIDITY: Duration = Duration::from_hours(90 * 24);

/// Remaining time of a server certificate at which it is renewed.
const RENEWAL: Duration = Duration::from_hours(30 * 24);

/// Time for which a root certificate is valid.
const ROOT_VALIDITY: Duration = Duration::from_hours(10 * 365 * 24);

/// Maximum time to wait for another process that issues a certificate.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(5);

/// Time between two attempts to lock the directory.
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// Tolerated difference between the clocks of the server and of its clients.
const CLOCK_ERROR: Duration = Duration::from_hours(1);

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn certificate(directory: &Path, names: &[&str]) -> LocalCertificate {
        LocalCertificate::new(directory, names.iter().map(|name| (*name).to_owned()))
    }

    #[test]
    fn first_certificate_creates_the_ca_and_later_ones_use_it() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("a/ca");
        let first = certificate(&directory, &["Localhost", "127.0.0.1", "::1", "*.a.example", "localhost"]);
        assert_eq!(first.names(), ["*.a.example", "127.0.0.1", "::1", "localhost"]);
        assert_eq!(first.issue().unwrap(), Issued::RootAndCertificate);
        let root = fs::read(first.root()).unwrap();
        assert_eq!(first.issue().unwrap(), Issued::Kept);
        let second = certificate(&directory, &["b.example"]);
        assert_eq!(second.issue().unwrap(), Issued::Certificate);
        assert_eq!(fs::read(second.root()).unwrap(), root);
        let mut names = first.files().contents().unwrap().names;
        names.sort_unstable();
        assert_eq!(names, first.names());
        for file in fs::read_dir(&directory).unwrap() {
            assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn certificate_and_root_are_renewed_before_they_expire() {
        let directory = tempfile::tempdir().unwrap();
        let certificate = certificate(directory.path(), &["localhost"]);
        let (now, day) = (Clock::system().time_of_day(), Duration::from_hours(24));
        assert_eq!(certificate.issue_at(now).unwrap(), Issued::RootAndCertificate);
        assert_eq!(certificate.issue_at(now + 59 * day).unwrap(), Issued::Kept);
        assert_eq!(certificate.issue_at(now + 61 * day).unwrap(), Issued::Certificate);
        let root = fs::read(certificate.root()).unwrap();
        assert_eq!(certificate.issue_at(now + 3600 * day).unwrap(), Issued::RootAndCertificate);
        assert_ne!(fs::read(certificate.root()).unwrap(), root);
    }

    #[test]
    fn damaged_ca_is_replaced_together_with_its_certificates() {
        let directory = tempfile::tempdir().unwrap();
        let certificate = certificate(directory.path(), &["localhost"]);
        certificate.issue().unwrap();
        fs::write(directory.path().join("root.key"), "damaged").unwrap();
        assert_eq!(certificate.issue().unwrap(), Issued::RootAndCertificate);
        assert_eq!(certificate.issue().unwrap(), Issued::Kept);
        fs::write(certificate.files().chain, "damaged").unwrap();
        assert_eq!(certificate.issue().unwrap(), Issued::Certificate);
    }

    #[test]
    fn errors_name_the_file_and_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let error = certificate(&file, &["localhost"]).issue().unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot use `{}` for the local CA: ", file.display())), "{error}");
        let error = certificate(directory.path(), &["ä"]).issue().unwrap_err().to_string();
        assert_eq!(error, "the local CA cannot issue a certificate for these names");
    }
}
