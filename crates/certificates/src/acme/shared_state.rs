//! The state of an ACME server that replicas share: the account and the certificates.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thruway_net::Clock;
use thruway_net::tls::{CertificateContents, Validity};
use thruway_store::{StoreError, StoreKey};

use super::{AcmeConfig, AcmeError, OrderedNames, Pace};
use crate::replicas::SharedSecrets;

/// Access to the shared state of one ACME server. Clones share the access.
#[derive(Clone)]
pub(super) struct SharedState {
    pub(super) secrets: SharedSecrets,
    /// Name of the ACME server in the keys of the values.
    server: String,
    pub(super) pace: Pace,
}

/// A certificate in the shared store, with its key.
#[derive(Serialize, Deserialize)]
pub(super) struct SharedCertificate {
    /// The certificate chain and its key.
    pub(super) pem: String,
    /// Start and end of the validity, in seconds since 1970.
    validity: (u64, u64),
}

/// Number of consecutive failures of the orders for a certificate, by any replica.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(super) struct SharedFailures {
    pub(super) count: u32,
    /// Time of the next order, in seconds since 1970.
    next: u64,
}

impl SharedState {
    /// Returns the shared state for `config`. Returns `None` if the process shares no certificates.
    pub(super) fn of(config: &AcmeConfig) -> Option<Self> {
        let server = config.directory_of_server();
        let server = server.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Some(Self { secrets: config.shared.clone()?, server, pace: config.pace })
    }

    /// Returns the credentials of the account, in JSON.
    pub(super) async fn account(&self) -> Result<Option<String>, StoreError> {
        self.secrets.fenced(&self.key("account")).await
    }

    /// Removes the account, because the ACME server does not know the account.
    pub(super) async fn forget_account(&self) {
        // If the removal fails, the ACME server refuses the account again at the next order.
        let _ = self.secrets.remove(&self.key("account")).await;
    }

    pub(super) async fn certificate(
        &self,
        names: &OrderedNames,
    ) -> Result<Option<SharedCertificate>, StoreError> {
        self.secrets.fenced(&self.key_for("certificate", names)).await
    }

    /// Returns the failures of the last orders for `names`, and the time until the next order.
    pub(super) async fn failures(&self, names: &OrderedNames) -> Option<(u32, Duration)> {
        let failures = self.secrets.get(&self.key_for("failures", names)).await.ok()??;
        let SharedFailures { count, next } = failures;
        Some((count, Duration::from_secs(next.saturating_sub(seconds(now())))))
    }

    /// Stores the failures, so that no other replica orders earlier than `wait`.
    pub(super) async fn keep_failures(&self, names: &OrderedNames, count: u32, wait: Duration) {
        let failures = SharedFailures { count, next: seconds(now() + wait) };
        let ttl = wait + FAILURES_TTL;
        let _ = self.secrets.set(&self.key_for("failures", names), &failures, ttl).await;
    }

    /// Returns the key of a value of this ACME server.
    pub(super) fn key(&self, purpose: &str) -> StoreKey {
        StoreKey::new("acme", &format!("{purpose}/{}", self.server))
    }

    /// Returns the key of a value for `names`. The key depends on all names, because replicas with an older
    /// config may order other names.
    pub(super) fn key_for(&self, purpose: &str, names: &OrderedNames) -> StoreKey {
        let names: Vec<_> = names.iter().collect();
        StoreKey::new("acme", &format!("{purpose}/{}/{}", self.server, names.join(",")))
    }

    /// Tells all replicas about a change in the shared store.
    pub(super) async fn notify(&self, change: SharedChange) {
        // Without this message, replicas notice the change a few seconds later.
        let _ =
            self.secrets.store().publish(&self.key("changes"), Bytes::from_static(change.as_bytes())).await;
    }
}

/// Message to the replicas about a change in the shared store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SharedChange {
    Certificate,
    Challenges,
}

impl SharedChange {
    const fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::Certificate => b"certificate",
            Self::Challenges => b"challenges",
        }
    }

    /// Returns the change in a message. Treats an unknown message as [`Self::Certificate`], because
    /// replicas then check all values.
    pub(super) fn of(message: &[u8]) -> Self {
        if message == Self::Challenges.as_bytes() { Self::Challenges } else { Self::Certificate }
    }
}

impl SharedCertificate {
    pub(super) fn new(pem: String, contents: &CertificateContents) -> Self {
        Self { pem, validity: seconds_of(&contents.validity) }
    }

    /// Returns `true` if this certificate was issued after `other`.
    pub(super) fn is_newer_than(&self, other: &CertificateContents) -> bool {
        self.validity > seconds_of(&other.validity)
    }

    /// Returns `true` if this certificate was issued before `other`.
    pub(super) fn is_older_than(&self, other: &CertificateContents) -> bool {
        self.validity < seconds_of(&other.validity)
    }

    /// Returns the time for which the shared store keeps this certificate.
    pub(super) fn ttl(&self) -> Duration {
        let left = Duration::from_secs(self.validity.1.saturating_sub(seconds(now())));
        left.max(TTL_MIN)
    }
}

fn seconds_of(validity: &Validity) -> (u64, u64) {
    (seconds(validity.not_before), seconds(validity.not_after))
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn now() -> SystemTime {
    Clock::system().time_of_day()
}

/// Returns the error for a failure of the shared store.
impl From<StoreError> for AcmeError {
    fn from(error: StoreError) -> Self {
        Self::SharedStore(error.to_string())
    }
}

const TTL_MIN: Duration = Duration::from_hours(1);
const FAILURES_TTL: Duration = Duration::from_hours(1);
