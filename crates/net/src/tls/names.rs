//! Which certificate a client gets: by the name that it asks for, exactly or by a wildcard; otherwise the
//! first.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::challenges::{TlsAlpnChallenges, is_validation};

use crate::thread_state::ThreadState;

/// The certificates of a listener by their names.
#[derive(Debug)]
pub(super) struct CertificatesByName {
    /// Names of hosts, in lower case.
    exact: HashMap<Box<str>, Arc<CertifiedKey>>,
    /// What stands behind `*.`; it is for one label more.
    wildcard: HashMap<Box<str>, Arc<CertifiedKey>>,
    /// For clients that name nothing, or nothing that is known.
    default: Option<Arc<CertifiedKey>>,
    /// For ACME servers that validate names.
    challenges: Option<TlsAlpnChallenges>,
}

/// How a certificate is for a name: the more, the closer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NameMatch {
    /// By a wildcard.
    Wildcard,
    /// It has the name itself.
    Exact,
}

impl CertificatesByName {
    /// Those of `certificates`, each with its names. For a name that several have, the first counts, and the
    /// first of all is the default.
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

    /// Whether there is one for this name, which is in lower case.
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

/// The name that was asked for in the step that was taken last on this thread: rustls shows it nowhere else.
pub(super) fn take_asked() -> Option<Box<str>> {
    ThreadState::with(|thread| thread.asked_name.take())
}
