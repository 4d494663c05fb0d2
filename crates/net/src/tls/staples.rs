//! What issuers say of the revocation of certificates (RFC 6066 §8): from files, or given by who has fetched
//! it. What it says is not looked into here.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::sign::CertifiedKey;

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

impl Staples {
    /// Sets the response that was fetched for `certificate`, or removes it. `false` if nothing changed.
    pub(super) fn set_fetched(&mut self, certificate: &[u8], response: Option<&[u8]>) -> bool {
        if self.fetched.get(certificate).map(Vec::as_slice) == response {
            return false;
        }
        match response {
            Some(response) => self.fetched.insert(certificate.to_vec(), response.to_vec()),
            None => self.fetched.remove(certificate),
        };
        true
    }

    /// Forgets the responses that were fetched for other certificates.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&[u8]) -> bool) {
        self.fetched.retain(|certificate, _| is_kept(certificate));
    }

    /// Sets which responses of files nobody is given. `false` if nothing changed.
    pub(super) fn set_withheld(&mut self, withheld: HashMap<Vec<u8>, Vec<u8>>) -> bool {
        let is_news = self.withheld != withheld;
        self.withheld = withheld;
        is_news
    }

    /// The response that was fetched for the certificate that `is_of` accepts.
    pub(super) fn fetched_for(&self, is_of: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let mut fetched = self.fetched.iter();
        fetched.find(|(certificate, _)| is_of(certificate)).map(|(_, response)| response.clone())
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
