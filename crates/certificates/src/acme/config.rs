//! ACME server and settings of orders.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thruway_net::tls::{CertificateFiles, TlsConnector};

use super::OrderedNames;

/// ACME server and settings of orders.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcmeConfig {
    /// The URL of the directory (RFC 8555 §7.1.1), which begins with `https://`.
    pub directory: String,
    /// TLS connector with the trusted roots for the ACME server.
    pub connector: Arc<TlsConnector>,
    /// `true` if the operator accepts the terms of service. Otherwise nothing is ordered.
    pub terms_of_service_agreed: bool,
    /// Contact URLs of the operator, such as `mailto:admin@example.com`. They are sent when the account is
    /// created.
    pub contacts: Vec<String>,
    /// External account binding (RFC 8555 §7.3.4): the account at the operator of the ACME server to which
    /// the ACME account is bound. Default none.
    pub external_account: Option<ExternalAccount>,
    /// Directory for the account, keys and certificates. Each ACME server has its own directory below it.
    pub store: PathBuf,
    /// Challenge that validates names.
    pub challenge: ChallengeKind,
    /// Timeouts and retry intervals.
    pub pace: Pace,
}

/// Challenge that validates names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChallengeKind {
    /// A plain HTTP request to port 80 (RFC 8555 §8.3).
    Http01,
    /// A TLS handshake at port 443 (RFC 8737).
    TlsAlpn01,
}

/// External account binding: an account that the operator of the ACME server issued.
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// Id of its key.
    pub key_id: String,
    /// The key, decoded.
    pub key: Vec<u8>,
}

/// Timeouts and retry intervals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Delay after the first failure. It doubles after each further one. Default 1 min.
    pub retry_first: Duration,
    /// Maximum delay. Default 6 h.
    pub retry_max: Duration,
    /// Timeout of an order. Default 5 min.
    pub order: Duration,
    /// Timeout of one response. Default 30 s.
    pub answer: Duration,
    /// First interval for checking the state of an order. The interval grows. Default 500 ms.
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
    /// Returns the directory for the certificates of this server.
    pub fn directory_of_server(&self) -> PathBuf {
        let url = self.directory.strip_prefix("https://").unwrap_or(&self.directory);
        let is_kept = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let name: String = url.chars().map(|c| if is_kept(c) { c } else { '-' }).collect();
        self.store.join(name.trim_matches(['.', '-']))
    }

    /// Returns the path of the file with the certificate for `names` and its key. Both are in one file, so
    /// that they change together.
    pub fn files(&self, names: &OrderedNames) -> CertificateFiles {
        let path = self.directory_of_server().join(format!("{}.pem", names.first()));
        CertificateFiles { chain: path.clone(), key: path, ocsp: None }
    }
}

impl ChallengeKind {
    /// Returns the name in the protocol (RFC 8555 §9.7.8).
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

/// Leaves out the key.
impl fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalAccount").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}
