//! OCSP responses: the issuer's statements about revocation (RFC 6066 §8). They come from files, or from code
//! that has fetched them. This module does not inspect them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::sign::CertifiedKey;

use super::certificates::Loaded;

/// The OCSP responses that do not come from certificate files, by certificate.
#[derive(Default)]
pub(super) struct Staples {
    /// The fetched responses.
    fetched: HashMap<Vec<u8>, Vec<u8>>,
    /// The responses from files that clients must not get.
    withheld: HashMap<Vec<u8>, Vec<u8>>,
}

/// An OCSP response from a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileStaple {
    /// The path of the file.
    pub path: PathBuf,
    /// The response, in DER.
    pub response: Vec<u8>,
}

impl Staples {
    /// Sets the fetched response for `certificate`, or removes it. Returns `false` if nothing changed.
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

    /// Removes the fetched responses for other certificates.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&[u8]) -> bool) {
        self.fetched.retain(|certificate, _| is_kept(certificate));
    }

    /// Sets the responses from files that clients must not get. Returns `false` if nothing changed.
    pub(super) fn set_withheld(&mut self, withheld: HashMap<Vec<u8>, Vec<u8>>) -> bool {
        let is_news = self.withheld != withheld;
        self.withheld = withheld;
        is_news
    }

    /// Returns the fetched response for the certificate that `is_of` accepts.
    pub(super) fn fetched_for(&self, is_of: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let mut fetched = self.fetched.iter();
        fetched.find(|(certificate, _)| is_of(certificate)).map(|(_, response)| response.clone())
    }
}

impl Loaded {
    /// Returns the certificate with its OCSP response. A response from a file has priority, unless it is
    /// withheld.
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
