//! Where certificates are ordered, and how.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thruway_net::tls::{CertificateFiles, TlsConnector};

use super::OrderedNames;

/// Where certificates are ordered, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcmeConfig {
    /// The URL of the directory (RFC 8555 §7.1.1), which begins with `https://`.
    pub directory: String,
    /// Who is trusted to say who the server is.
    pub connector: Arc<TlsConnector>,
    /// Whether its terms of service are agreed to. Without, nothing is ordered.
    pub terms_of_service_agreed: bool,
    /// Where its operators reach those of this server, as `mailto:admin@example.com`. Said when the account
    /// is made.
    pub contacts: Vec<String>,
    /// An account elsewhere to which that of ACME is bound (RFC 8555 §7.3.4). Default none.
    pub external_account: Option<ExternalAccount>,
    /// The directory in which account, keys and certificates are kept. Each ACME server has a directory of
    /// its own below it.
    pub store: PathBuf,
    /// How names are validated.
    pub challenge: ChallengeKind,
    /// How long is waited for what.
    pub pace: Pace,
}

/// How an ACME server finds out that a name leads here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChallengeKind {
    /// By a request without TLS to port 80 (RFC 8555 §8.3).
    Http01,
    /// By a handshake at port 443 (RFC 8737).
    TlsAlpn01,
}

/// An account that somebody has elsewhere with those who operate the ACME server.
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// What they call its key.
    pub key_id: String,
    /// The key, decoded.
    pub key: Vec<u8>,
}

/// How long is waited for what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// After the first failure; twice as long after each further one. Default 1 min.
    pub retry_first: Duration,
    /// At most. Default 6 h.
    pub retry_max: Duration,
    /// For a whole order. Default 5 min.
    pub order: Duration,
    /// For one answer of the server. Default 30 s.
    pub answer: Duration,
    /// Before it is asked again what became of an order; longer each time. Default 500 ms.
    pub poll: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            retry_first: Duration::from_mins(1),
            retry_max: Duration::from_hours(6),
            order: Duration::from_mins(5),
            answer: Duration::from_secs(30),
            poll: Duration::from_millis(500),
        }
    }
}

impl AcmeConfig {
    /// The directory in which what this server has issued is.
    pub fn directory_of_server(&self) -> PathBuf {
        let url = self.directory.strip_prefix("https://").unwrap_or(&self.directory);
        let is_kept = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let name: String = url.chars().map(|c| if is_kept(c) { c } else { '-' }).collect();
        self.store.join(name.trim_matches(['.', '-']))
    }

    /// Where the certificate for `names` will be, with its key: one file, so that they change together.
    pub fn files(&self, names: &OrderedNames) -> CertificateFiles {
        let path = self.directory_of_server().join(format!("{}.pem", names.first()));
        CertificateFiles { chain: path.clone(), key: path, ocsp: None }
    }
}

impl ChallengeKind {
    /// What it is called (RFC 8555 §9.7.8).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
        }
    }
}

impl fmt::Display for ChallengeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Without the key.
impl fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalAccount").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}
