//! Stores the OCSP responses that the server sends with its certificates (RFC 6066 §8). Callers read the
//! responses from files, or fetch the responses from OCSP responders. This module does not check the
//! responses.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::sign::CertifiedKey;

use super::certificates::Loaded;

/// The fetched OCSP responses, and the withheld OCSP responses. The keys of both maps are certificates in
/// DER.
#[derive(Default)]
pub(super) struct Staples {
    /// OCSP responses that the caller has fetched from OCSP responders.
    fetched: HashMap<Vec<u8>, Vec<u8>>,
    /// Invalid OCSP responses from files. The server must not send these responses to clients.
    withheld: HashMap<Vec<u8>, Vec<u8>>,
}

/// An OCSP response that was read from a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileStaple {
    /// The path of the file.
    pub path: PathBuf,
    /// The response, in DER.
    pub response: Vec<u8>,
}

impl Staples {
    /// Sets the fetched response for `certificate`. `None` removes the response. Returns `false` if nothing
    /// changed.
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

    /// Calls `is_kept` with each certificate. If the result is `false`, removes the fetched response for
    /// the certificate.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&[u8]) -> bool) {
        self.fetched.retain(|certificate, _| is_kept(certificate));
    }

    /// Sets the withheld responses. The server must not send these responses. Returns `false` if nothing
    /// changed.
    pub(super) fn set_withheld(&mut self, withheld: HashMap<Vec<u8>, Vec<u8>>) -> bool {
        let has_changed = self.withheld != withheld;
        self.withheld = withheld;
        has_changed
    }

    /// Calls `is_of` with each certificate. Returns the fetched response for the first certificate for
    /// which the result is `true`.
    pub(super) fn fetched_for(&self, is_of: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let mut fetched = self.fetched.iter();
        fetched.find(|(certificate, _)| is_of(certificate)).map(|(_, response)| response.clone())
    }
}

impl Loaded {
    /// Returns the certificate with its OCSP response. Prefers the response from a file over a fetched
    /// response, unless the response from the file is withheld.
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
