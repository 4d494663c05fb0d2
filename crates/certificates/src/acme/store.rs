//! Stores the ACME account, and the certificates with their keys, in files.
//!
//! The account is in one file. For each certificate, one further file contains the certificate and its key.
//! All files have mode 0600. To replace a file atomically, the store writes a temporary file, flushes the
//! file to disk and renames it. Only one process at a time can open the store.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use instant_acme::AccountCredentials;
use thruway_net::tls::{CertificateContents, CertificateFiles};

use super::AcmeError;
use crate::private_files::{create_directory, private, put_in_place, replace, write_beside};

/// The directory of one ACME server. A lock file prevents other processes from writing to the directory
/// until this value is dropped.
pub(super) struct Store {
    directory: PathBuf,
    _lock: File,
}

impl Store {
    /// Opens and locks `directory`. Creates the directory if it is missing.
    pub(super) fn open(directory: &Path) -> Result<Self, AcmeError> {
        let failed = |error: io::Error| failure(directory, &error);
        create_directory(directory).map_err(failed)?;
        let lock = private().create(true).truncate(false).open(directory.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { directory: directory.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(AcmeError::StoreInUse(directory.to_owned())),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Returns the stored account, if any.
    pub(super) fn account(&self) -> Result<Option<AccountCredentials>, AcmeError> {
        let unreadable = |_| AcmeError::AccountUnreadable(self.account_path());
        let json = self.account_json()?;
        json.map(|json| serde_json::from_str(&json).map_err(unreadable)).transpose()
    }

    /// Returns the text of the account file, if any.
    pub(super) fn account_json(&self) -> Result<Option<String>, AcmeError> {
        let path = self.account_path();
        match fs::read(&path) {
            Ok(json) => String::from_utf8(json).map(Some).map_err(|_| AcmeError::AccountUnreadable(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failure(&path, &error)),
        }
    }

    /// Stores the credentials of the account, in JSON.
    pub(super) fn keep_account(&self, json: &str) -> Result<(), AcmeError> {
        let path = self.account_path();
        replace(&path, json.as_bytes()).map_err(|error| failure(&path, &error))
    }

    /// Removes the file with the account and its key.
    pub(super) fn forget_account(&self) {
        // If the removal fails, the ACME server refuses the stored account again at the next order.
        let _ = fs::remove_file(self.account_path());
    }

    /// Replaces `files` with `pem` if `check` accepts the certificate in `pem`. `pem` contains a
    /// certificate and its key.
    pub(super) fn keep_certificate(
        &self,
        files: &CertificateFiles,
        pem: &str,
        check: impl FnOnce(&CertificateContents) -> Result<(), AcmeError>,
    ) -> Result<(), AcmeError> {
        let path = self.directory.join(files.chain.file_name().unwrap_or_default());
        let failed = |error: io::Error| failure(&path, &error);
        let beside = write_beside(&path, pem.as_bytes()).map_err(failed)?;
        let written = CertificateFiles { chain: beside.clone(), key: beside.clone(), ocsp: None };
        let checked = written.contents().map_err(AcmeError::CertificateUnusable);
        let kept = checked
            .and_then(|contents| check(&contents))
            .and_then(|()| put_in_place(&beside, &path).map_err(failed));
        if kept.is_err() {
            // Removes the temporary file, so that no unused key remains on disk.
            let _ = fs::remove_file(&beside);
        }
        kept
    }

    /// Checks that a certificate can be stored: writes and removes a test file.
    pub(super) fn check_capacity(&self) -> Result<(), AcmeError> {
        let path = self.directory.join("room");
        let written = write_beside(&path, &vec![0; CERTIFICATE_BYTES]);
        // If the removal fails, the next check removes the test file.
        let _ = fs::remove_file(path.with_added_extension("new"));
        written.map(drop).map_err(|error| failure(&path, &error))
    }

    fn account_path(&self) -> PathBuf {
        self.directory.join("account.json")
    }
}

/// Size of the test file, in bytes. A certificate chain with its key is smaller.
const CERTIFICATE_BYTES: usize = 64 << 10;

fn failure(path: &Path, error: &io::Error) -> AcmeError {
    AcmeError::Store(path.to_owned(), error.kind())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use thruway_testkit::CertificateAuthority;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn pem_of(files: &CertificateFiles) -> String {
        fs::read_to_string(&files.chain).unwrap() + &fs::read_to_string(&files.key).unwrap()
    }

    #[test]
    fn store_can_be_opened_only_once_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        let store = Store::open(&path).unwrap();
        assert!(matches!(Store::open(&path), Err(AcmeError::StoreInUse(in_use)) if in_use == path));
        drop(store);
        assert!(Store::open(&path).is_ok());
        assert_eq!((mode(&path), mode(&path.join("lock"))), (0o700, 0o600));
    }

    #[test]
    fn unusable_certificate_does_not_replace_stored_one() {
        let (authority, directory) = (CertificateAuthority::new(), tempfile::tempdir().unwrap());
        let store = Store::open(directory.path()).unwrap();
        let path = directory.path().join("a.example.pem");
        let files = CertificateFiles { chain: path.clone(), key: path.clone(), ocsp: None };
        let first = pem_of(&authority.issue("first", &["a.example"]));
        let leftover = directory.path().join("a.example.pem.new");
        fs::write(&leftover, "half a certifi").unwrap();
        fs::set_permissions(&leftover, fs::Permissions::from_mode(0o644)).unwrap();
        store.keep_certificate(&files, &first, |_| Ok(())).unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap(), mode(&path)), (first.clone(), 0o600));
        assert_eq!(files.contents().unwrap().names, ["a.example"]);

        let second = authority.issue("second", &["a.example"]);
        let key_of_another = fs::read_to_string(&second.chain).unwrap()
            + &fs::read_to_string(authority.issue("third", &[]).key).unwrap();
        for unusable in
            ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &key_of_another]
        {
            let refused = store.keep_certificate(&files, unusable, |_| Ok(()));
            assert!(matches!(refused, Err(AcmeError::CertificateUnusable(_))), "{refused:?}");
        }
        let refused = store.keep_certificate(&files, &pem_of(&second), |_| Err(AcmeError::CertificateTooOld));
        assert!(matches!(refused, Err(AcmeError::CertificateTooOld)));
        assert_eq!(fs::read_to_string(&path).unwrap(), first);
        assert!(!leftover.exists());
    }

    #[test]
    fn capacity_check_fails_if_store_cannot_be_written() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        store.check_capacity().unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "only the lock file remains");
        fs::create_dir(directory.path().join("room.new")).unwrap();
        assert!(matches!(store.check_capacity(), Err(AcmeError::Store(..))));
    }

    #[test]
    fn unreadable_account_file_is_an_error_until_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        assert!(store.account().unwrap().is_none());
        let path = directory.path().join("account.json");
        fs::write(&path, "{\"id\":").unwrap();
        assert!(matches!(store.account(), Err(AcmeError::AccountUnreadable(_))));
        store.forget_account();
        assert!(store.account().unwrap().is_none());
    }
}
