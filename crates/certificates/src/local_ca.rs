//! A local certificate authority (CA) for development. It issues server certificates that clients accept if they
//! trust its root certificate.
//!
//! One directory contains the root certificate, its key, and the issued certificates. All processes of a user share
//! this directory, so the user needs to trust only one root certificate. All files have mode 0600. The CA does not use
//! a directory that another user can change, or a key that another user can read.

#[cfg(test)]
mod tests;

use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha1::{Digest, Sha1};
use thruway_net::Clock;
use thruway_net::tls::{CertificateFiles, CertificateProblem};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::BasicConstraints as CaConstraints;

use crate::ocsp::is_issued_by;
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
    /// The root certificate is not the certificate of the CA's key. Contains the paths of the certificate and the
    /// key.
    ForeignRoot(PathBuf, PathBuf),
    /// The key of the CA is invalid. Contains the path of its file.
    InvalidKey(PathBuf),
    /// Other users can change the directory, or a file or directory belongs to another user. Contains its path.
    ChangeableByOthers(PathBuf),
    /// Other users can read a file with a key. Contains its path.
    ReadableByOthers(PathBuf),
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
        create_directory(&self.directory).map_err(failed(&self.directory))?;
        check_owner(&self.directory)?;
        // Another process may use the same directory. The lock ends when the file is closed.
        let lock_path = self.directory.join("lock");
        let lock = private().create(true).truncate(false).open(&lock_path).map_err(failed(&lock_path))?;
        wait_for(&lock, thread::sleep).map_err(failed(&lock_path))?;
        check_file(&root_path, false)?;
        check_file(&key_path, true)?;
        check_file(&self.files().chain, true)?;
        let root = Root { certificate: &root_path, key: &key_path };
        let has_root = root.is_usable_until(now + VALIDITY)?;
        if has_root && is_valid_until(&self.files(), now + RENEWAL) && self.is_signed_by_root() {
            return Ok(Issued::Kept);
        }
        let key = if has_root { read_key(&key_path)? } else { new_key()? };
        let params = root_params(&key, now);
        if !has_root {
            let certificate = params.self_signed(&key).map_err(|_| LocalCaError::NotCreated)?;
            root.replace(&key, certificate.der())?;
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

    /// Returns `true` if the current root certificate is the issuer of the certificate.
    fn is_signed_by_root(&self) -> bool {
        let (own, root) = (read_certificate(&self.files().chain), read_certificate(&self.root()));
        own.zip(root).is_some_and(|(own, root)| is_issued_by(&own, &root))
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

/// The files of the root certificate and its key.
struct Root<'a> {
    certificate: &'a Path,
    key: &'a Path,
}

impl Root<'_> {
    /// Returns `true` if the CA can issue certificates that are valid until `time`. Returns `false` if a file is
    /// missing or damaged, or if the root certificate expires earlier.
    ///
    /// # Errors
    /// A file cannot be read, or the root certificate is not the certificate of the key.
    fn is_usable_until(&self, time: SystemTime) -> Result<bool, LocalCaError> {
        let foreign = || LocalCaError::ForeignRoot(self.certificate.to_owned(), self.key.to_owned());
        for path in [self.certificate, self.key] {
            match File::open(path) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(failed(path)(error)),
            }
        }
        let files = CertificateFiles { chain: self.certificate.into(), key: self.key.into(), ocsp: None };
        let contents = match files.contents() {
            Ok(contents) => contents,
            Err(error) if error.problem == CertificateProblem::KeyOfAnother => return Err(foreign()),
            Err(_) => return Ok(false),
        };
        // The key signs certificates in the name of the CA. Clients accept these certificates only if the root
        // certificate has the same name.
        let name = root_name(&read_key(self.key)?);
        let root = contents.chain.first().and_then(|der| Certificate::from_der(der).ok());
        if !root.is_some_and(|root| is_ca(&root) && has_name(&root, &name)) {
            return Err(foreign());
        }
        Ok(contents.validity.not_after > time)
    }

    /// Replaces the files. If this process ends before the end, the root certificate is missing, so that the next
    /// process creates both files again.
    fn replace(&self, key: &KeyPair, certificate: &[u8]) -> Result<(), LocalCaError> {
        match fs::remove_file(self.certificate) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed(self.certificate)(error));
            }
            _ => {}
        }
        let key_pem = pem("PRIVATE KEY", &key.serialize_der());
        replace(self.key, key_pem.as_bytes()).map_err(failed(self.key))?;
        replace(self.certificate, pem("CERTIFICATE", certificate).as_bytes())
            .map_err(failed(self.certificate))
    }
}

/// Returns a function that adds `path` to an error.
fn failed(path: &Path) -> impl FnOnce(io::Error) -> LocalCaError {
    let path = path.to_owned();
    move |error| LocalCaError::File(path, error)
}

/// Checks that only this user can change the file or directory `path`.
fn check_owner(path: &Path) -> Result<Metadata, LocalCaError> {
    let metadata = path.metadata().map_err(failed(path))?;
    if is_own(&metadata) && metadata.mode() & 0o022 == 0 {
        Ok(metadata)
    } else {
        Err(LocalCaError::ChangeableByOthers(path.to_owned()))
    }
}

/// Checks that only this user can change the file `path`, and read the file if it contains a key. A missing file is no
/// error.
fn check_file(path: &Path, has_key: bool) -> Result<(), LocalCaError> {
    let metadata = match check_owner(path) {
        Ok(metadata) => metadata,
        Err(LocalCaError::File(_, error)) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if has_key && metadata.mode() & 0o077 != 0 {
        return Err(LocalCaError::ReadableByOthers(path.to_owned()));
    }
    Ok(())
}

/// Returns `true` if the file belongs to the user of this process.
fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

/// Reads the first certificate of a file in PEM.
fn read_certificate(path: &Path) -> Option<Certificate> {
    let der = CertificateDer::from_pem_file(path).ok()?;
    Certificate::from_der(&der).ok()
}

/// Returns `true` if the certificate is the certificate of a CA.
fn is_ca(certificate: &Certificate) -> bool {
    let constraints = certificate.tbs_certificate.get::<CaConstraints>().ok().flatten();
    constraints.is_some_and(|(_, constraints)| constraints.ca)
}

/// Returns `true` if the subject of the certificate is only the common name `name`.
fn has_name(certificate: &Certificate, name: &str) -> bool {
    certificate.tbs_certificate.subject.to_string() == format!("CN={name}")
}

/// Returns the name of the CA with the key `key`. The name contains a part of the digest of the key, so that the CAs of
/// different users have different names.
fn root_name(key: &KeyPair) -> String {
    let digest = Sha1::digest(key.der_bytes());
    let id = digest.iter().take(4).fold(String::new(), |id, byte| format!("{id}{byte:02x}"));
    format!("Thruway local CA {id}")
}

/// Returns the parameters of the root certificate for `key`.
fn root_params(key: &KeyPair, now: SystemTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, root_name(key));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params.not_before, params.not_after) = ((now - CLOCK_ERROR).into(), (now + ROOT_VALIDITY).into());
    params
}

/// Locks the file `lock`. Another process needs the lock only while it issues a certificate. Between two attempts, this
/// function calls `pause` with the time to wait.
///
/// # Errors
/// The file cannot be locked, or another process keeps the lock too long.
fn wait_for(lock: &File, mut pause: impl FnMut(Duration)) -> io::Result<()> {
    let mut waited = Duration::ZERO;
    loop {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) if waited < LOCK_WAIT_MAX => {
                pause(LOCK_INTERVAL);
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
            Self::ForeignRoot(root, key) => write!(
                f,
                "`{}` is not the root certificate of the key `{}`: remove both files, and Thruway creates a new \
                 local CA, which clients must trust again",
                root.display(),
                key.display()
            ),
            Self::InvalidKey(path) => write!(f, "`{}` is not the key of a local CA", path.display()),
            Self::ChangeableByOthers(path) => {
                let path = path.display();
                write!(
                    f,
                    "other users can change `{path}` of the local CA: the owner must be the user of Thruway, and only \
                     the owner may have write permission (`chmod go-w {path}`)"
                )
            }
            Self::ReadableByOthers(path) => {
                let path = path.display();
                write!(
                    f,
                    "other users can read the key in `{path}`: run `chmod 600 {path}`, or remove the file if another \
                     user may have copied the key"
                )
            }
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
