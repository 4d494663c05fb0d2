//! Config of the ACME client.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thruway_net::tls::{CertificateFiles, TlsConnector};

use super::OrderedNames;
use crate::replicas::SharedSecrets;

/// Config of the ACME client: the ACME server, and the settings of orders.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcmeConfig {
    /// URL of the directory of the ACME server (RFC 8555 §7.1.1). The URL must begin with `https://`.
    pub directory: String,
    /// TLS connector that connects to the ACME server. The connector must trust the root certificate of the
    /// ACME server.
    pub connector: Arc<TlsConnector>,
    /// `true` if the operator accepts the terms of service of the ACME server. If `false`, every order
    /// fails with [`AcmeError::TermsNotAgreed`](super::AcmeError::TermsNotAgreed).
    pub terms_of_service_agreed: bool,
    /// Contact URLs of the operator, such as `mailto:admin@example.com`. The client sends the URLs only
    /// when it creates the account.
    pub contacts: Vec<String>,
    /// An existing account at the certificate authority. The ACME account is bound to this existing account
    /// (external account binding, RFC 8555 §7.3.4). Default: `None`.
    pub external_account: Option<ExternalAccount>,
    /// Directory for the account, keys and certificates. The directory contains a subdirectory for each
    /// ACME server.
    pub store: PathBuf,
    /// Secrets in the store that all replicas share. If set, `store` contains local copies, and only one
    /// replica orders each certificate. Default: `None`.
    pub shared: Option<SharedSecrets>,
    /// Challenge with which the ACME server validates names.
    pub challenge: ChallengeKind,
    /// Timeouts and retry intervals.
    pub pace: Pace,
}

/// Challenge with which the ACME server validates names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ChallengeKind {
    /// A plain HTTP request to port 80 (RFC 8555 §8.3).
    Http01,
    /// A TLS handshake at port 443 (RFC 8737).
    TlsAlpn01,
}

/// Key for external account binding. The certificate authority issues this key to the owner of an existing
/// account.
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// Id of the key.
    pub key_id: String,
    /// The decoded HMAC key.
    pub key: Vec<u8>,
}

/// Timeouts and retry intervals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Delay after the first failed order. Each further failure doubles the delay. Default: 1 min.
    pub retry_first: Duration,
    /// Maximum delay after a failed order. Default: 6 h.
    pub retry_max: Duration,
    /// Timeout of an order. Default: 5 min.
    pub order: Duration,
    /// Timeout of one request to the ACME server. Default: 30 s.
    pub answer: Duration,
    /// Interval between the first two checks of the state of an order. Later intervals are longer. Default:
    /// 500 ms.
    pub poll: Duration,
    /// Time after which another replica continues the order of a replica that was killed. Default: 30 s.
    pub lock: Duration,
    /// Interval at which a replica reads the challenges of other replicas from the shared store. Replicas also
    /// notify each other. Default: 5 s.
    pub follow: Duration,
    /// Maximum time in which an order waits until all replicas can respond to its challenges. Default: 5 s.
    pub spread: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            retry_first: Duration::from_mins(1),
            retry_max: Duration::from_hours(6),
            order: Duration::from_mins(5),
            answer: Duration::from_secs(30),
            poll: Duration::from_millis(500),
            lock: Duration::from_secs(30),
            follow: Duration::from_secs(5),
            spread: Duration::from_secs(5),
        }
    }
}

impl AcmeConfig {
    /// Returns the subdirectory of `store` for the files of this ACME server.
    pub fn directory_of_server(&self) -> PathBuf {
        let url = self.directory.strip_prefix("https://").unwrap_or(&self.directory);
        let is_kept = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let name: String = url.chars().map(|c| if is_kept(c) { c } else { '-' }).collect();
        self.store.join(name.trim_matches(['.', '-']))
    }

    /// Returns the path of the certificate file for `names`. This file contains the certificate and its
    /// key, so that both change at the same time.
    pub fn files(&self, names: &OrderedNames) -> CertificateFiles {
        let path = self.directory_of_server().join(format!("{}.pem", names.first()));
        CertificateFiles { chain: path.clone(), key: path, ocsp: None }
    }
}

impl ChallengeKind {
    /// Returns the name of the challenge in the ACME protocol (RFC 8555 §9.7.8).
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

/// Omits the key, because the key is secret.
impl fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalAccount").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}
