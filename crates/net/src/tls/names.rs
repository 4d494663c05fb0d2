//! Selects the certificate for a client: the certificate with the requested host name, else a certificate
//! with a matching wildcard, else the first certificate.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::challenges::{TlsAlpnChallenges, is_validation};

use crate::thread_state::ThreadState;

/// The certificates of a listener, by host name.
#[derive(Debug)]
pub(super) struct CertificatesByName {
    /// Certificates by host name, in lower case.
    exact: HashMap<Box<str>, Arc<CertifiedKey>>,
    /// Wildcard certificates, by the part of the name after `*.`. A wildcard matches names with exactly one
    /// more label.
    wildcard: HashMap<Box<str>, Arc<CertifiedKey>>,
    /// The certificate for clients that request no host name or an unknown host name.
    default: Option<Arc<CertifiedKey>>,
    /// Challenge certificates. The listener presents these certificates when an ACME server validates a
    /// host name.
    challenges: Option<TlsAlpnChallenges>,
}

/// Kind of match between a certificate and a host name. A better match is a greater value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NameMatch {
    /// A wildcard in the certificate matches the name.
    Wildcard,
    /// The certificate contains the exact name.
    Exact,
}

impl CertificatesByName {
    /// Creates the table. `certificates` contains each certificate with its host names. If several
    /// certificates have the same name, the table uses the first of these certificates. The first
    /// certificate in the list is the default.
    pub(super) fn new(
        certificates: impl IntoIterator<Item = (Vec<String>, Arc<CertifiedKey>)>,
        challenges: Option<TlsAlpnChallenges>,
    ) -> Self {
        let (exact, wildcard) = (HashMap::new(), HashMap::new());
        let mut by_name = Self { exact, wildcard, default: None, challenges };
        for (names, certificate) in certificates {
            for name in names {
                let name = name.to_ascii_lowercase();
                let (table, name) = match name.strip_prefix("*.") {
                    Some(parent) => (&mut by_name.wildcard, parent),
                    None => (&mut by_name.exact, &*name),
                };
                table.entry(name.into()).or_insert_with(|| certificate.clone());
            }
            by_name.default.get_or_insert(certificate);
        }
        by_name
    }

    /// Returns the kind of match for `name`, which must be in lower case. Returns `None` if no certificate
    /// matches.
    pub(super) fn match_of(&self, name: &str) -> Option<NameMatch> {
        self.named(name).map(|(of, _)| of)
    }

    fn named(&self, name: &str) -> Option<(NameMatch, &Arc<CertifiedKey>)> {
        let exact = self.exact.get(name).map(|certificate| (NameMatch::Exact, certificate));
        exact.or_else(|| {
            let (_, parent) = name.split_once('.')?;
            self.wildcard.get(parent).map(|certificate| (NameMatch::Wildcard, certificate))
        })
    }

    fn find(&self, name: Option<&str>) -> Option<&Arc<CertifiedKey>> {
        let named = name.and_then(|name| self.named(name)).map(|(_, certificate)| certificate);
        named.or(self.default.as_ref())
    }
}

impl ResolvesServerCert for CertificatesByName {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = client_hello.server_name().map(str::to_ascii_lowercase);
        let certificate = match &self.challenges {
            Some(challenges) if is_validation(&client_hello) => challenges.find(name.as_deref()?),
            _ => self.find(name.as_deref()).cloned(),
        };
        ThreadState::with(|thread| thread.asked_name.set(name.map(Into::into)));
        certificate
    }
}

/// Returns the host name that a client requested in the most recent handshake step on this thread. rustls
/// passes this name only to the certificate resolver, so the resolver stores the name for this thread.
pub(super) fn take_requested_name() -> Option<Box<str>> {
    ThreadState::with(|thread| thread.asked_name.take())
}
