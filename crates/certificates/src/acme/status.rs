//! Statuses of the ordered certificates.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::OrderedNames;

/// Status of an ordered certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateStatus {
    /// Names of the certificate.
    pub names: OrderedNames,
    /// Path of the certificate file. The file may not exist yet.
    pub path: PathBuf,
    /// Expiry of the existing certificate, if any.
    pub not_after: Option<SystemTime>,
    /// Time of the next order.
    pub next_at: SystemTime,
    /// Number of consecutive failures.
    pub failures: u32,
    /// Error of the last order, if that order failed.
    pub last_error: Option<String>,
}

/// Statuses of all ordered certificates, by their names. Clones share the statuses.
#[derive(Clone, Default)]
pub(super) struct Statuses(Arc<(Mutex<ByNames>, Condvar)>);

type ByNames = BTreeMap<OrderedNames, CertificateStatus>;

impl Statuses {
    /// Replaces the status of a certificate and wakes callers of [`wait_until`](Self::wait_until).
    pub(super) fn publish(&self, status: CertificateStatus) {
        self.lock().insert(status.names.clone(), status);
        self.0.1.notify_all();
    }

    /// Removes the statuses of certificates that are not in `wanted`.
    pub(super) fn keep_only(&self, wanted: &[OrderedNames]) {
        self.lock().retain(|names, _| wanted.contains(names));
        self.0.1.notify_all();
    }

    /// Returns all statuses, ordered by name.
    pub(super) fn all(&self) -> Vec<CertificateStatus> {
        self.lock().values().cloned().collect()
    }

    /// Waits until `is_so` returns `true` for the statuses, but no longer than `within`. Returns the last
    /// result of `is_so`.
    pub(super) fn wait_until(&self, within: Duration, is_so: impl Fn(&[CertificateStatus]) -> bool) -> bool {
        let is_not = |statuses: &mut ByNames| !is_so(&statuses.values().cloned().collect::<Vec<_>>());
        let waited = self.0.1.wait_timeout_while(self.lock(), within, is_not);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn lock(&self) -> MutexGuard<'_, ByNames> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
