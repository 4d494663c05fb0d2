//! The access of an ACME client to the shared store, and the log lines about failures of the store.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::shared_state::SharedState;
use super::{AcmeConfig, AcmeError, OrderedNames};

/// Access of an ACME client to the shared store.
pub(super) struct SharedAccess {
    pub(super) state: SharedState,
    /// Wakes the renewers when a replica has stored a certificate.
    pub(super) changed: watch::Sender<()>,
    /// Error of the last access to the store, if it failed. The client logs each error only once.
    last_error: Mutex<Option<String>>,
    /// Times of the last uploads.
    uploaded: Mutex<BTreeMap<OrderedNames, Instant>>,
}

impl SharedAccess {
    /// Returns the client for `config`. Returns `None` if the process shares no certificates.
    pub(super) fn of(config: &AcmeConfig) -> Option<Self> {
        let state = SharedState::of(config)?;
        Some(Self {
            state,
            changed: watch::Sender::default(),
            last_error: Mutex::default(),
            uploaded: Mutex::default(),
        })
    }

    /// Returns the interval at which replicas check the store for a new certificate. Replicas also notify each
    /// other, but a message can get lost.
    pub(super) fn check_interval(&self) -> Duration {
        let has_failed = self.last_error.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if has_failed { self.state.pace.follow } else { CHECK_INTERVAL }
    }

    /// Logs the first of several failures of the shared store, and its recovery.
    pub(super) fn log(&self, outcome: Result<(), AcmeError>) {
        let error = outcome.err().map(|error| error.to_string());
        let mut last_error = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*last_error, &error) {
            (None, Some(error)) => {
                tracing::warn!("cannot share certificates, keeping the certificates in use: {error}");
            }
            (Some(_), None) => tracing::info!("sharing certificates again"),
            _ => {}
        }
        *last_error = error;
    }

    /// Returns `true` if the last upload for `names` was not long ago. Without this limit, two replicas with
    /// different operator keys would replace the values of each other all the time.
    pub(super) fn has_just_uploaded(&self, names: &OrderedNames) -> bool {
        self.uploaded().get(names).is_some_and(|last| last.elapsed() < UPLOAD_INTERVAL_MIN)
    }

    /// Records an upload for `names`.
    pub(super) fn record_upload(&self, names: &OrderedNames) {
        self.uploaded().insert(names.clone(), Instant::now());
    }

    fn uploaded(&self) -> MutexGuard<'_, BTreeMap<OrderedNames, Instant>> {
        self.uploaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const UPLOAD_INTERVAL_MIN: Duration = Duration::from_mins(1);
const CHECK_INTERVAL: Duration = Duration::from_mins(1);
