//! What issuers say of the revocation of certificates (RFC 6066 §8): from files, or given by who has fetched it. What it says is not looked
//! into here.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};

use rustls::sign::CertifiedKey;

use super::acceptor::TlsAcceptor;
use super::certificates::Loaded;

/// What is said of certificates beside their files, by certificates.
#[derive(Default)]
pub(super) struct Staples {
    /// What was fetched.
    fetched: HashMap<Vec<u8>, Vec<u8>>,
    /// What files say and nobody is given.
    withheld: HashMap<Vec<u8>, Vec<u8>>,
}

/// What a file says of the revocation of a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileStaple {
    /// The file.
    pub path: PathBuf,
    /// What it says.
    pub response: Vec<u8>,
}

impl TlsAcceptor {
    /// Gives clients `response` with `certificate`, in DER: what its issuer says of its revocation (an OCSP response in DER), unless a file
    /// says that. `None` to give them nothing any more.
    pub fn staple(&self, certificate: &[u8], response: Option<&[u8]>) {
        let mut staples = self.staples();
        let fetched = &mut staples.fetched;
        if fetched.get(certificate).map(Vec::as_slice) == response {
            return;
        }
        match response {
            Some(response) => fetched.insert(certificate.to_vec(), response.to_vec()),
            None => fetched.remove(certificate),
        };
        let live = self.live.load();
        // Those of certificates that were replaced.
        fetched
            .retain(|certificate, _| live.certificates.iter().any(|(_, loaded)| loaded.is_of(certificate)));
        self.give(&staples);
    }

    /// Has clients not be given these responses any more, each with its certificate, in DER, which are from [files](FileStaple); and all others
    /// again. Whoever knows what such a response must be says here which are none.
    pub fn withhold(&self, responses: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) {
        let mut staples = self.staples();
        let withheld: HashMap<_, _> = responses.into_iter().collect();
        if staples.withheld != withheld {
            staples.withheld = withheld;
            self.give(&staples);
        }
    }

    /// What clients are given with the certificate in this file, if it is not from a file too.
    pub fn stapled(&self, chain: &Path) -> Option<Vec<u8>> {
        let staples = self.staples();
        let live = self.live.load();
        let (_, loaded) = live.certificates.iter().find(|(path, _)| path == chain)?;
        let mut fetched = staples.fetched.iter();
        fetched.find(|(certificate, _)| loaded.is_of(certificate)).map(|(_, response)| response.clone())
    }

    pub(super) fn staples(&self) -> MutexGuard<'_, Staples> {
        self.staples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn file_staple(&self, chain: &Path, loaded: &Loaded) -> Option<FileStaple> {
        let files = self.config().certificates.iter().find(|files| files.chain == chain)?;
        Some(FileStaple { path: files.ocsp.clone()?, response: loaded.certified.ocsp.clone()? })
    }
}

impl Loaded {
    /// The same with what is said of it in `staples`, unless a file says that which is not withheld.
    pub(super) fn stapled_with(&self, staples: &Staples) -> Arc<CertifiedKey> {
        let own: &[u8] = self.certified.cert.first().map_or(&[], AsRef::as_ref);
        let of_file =
            self.certified.ocsp.as_ref().filter(|of_file| staples.withheld.get(own) != Some(*of_file));
        let ocsp = of_file.or_else(|| staples.fetched.get(own)).cloned();
        if ocsp == self.certified.ocsp {
            return self.certified.clone();
        }
        Arc::new(CertifiedKey { ocsp, ..CertifiedKey::clone(&self.certified) })
    }
}
