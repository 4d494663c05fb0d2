//! The access of an ACME client to the shared store, and the log lines about failures of the store.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
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

    /// Logs the first of several failures of the shared store, and its recovery.
    pub(super) fn log(&self, outcome: Result<(), AcmeError>) {
        let error = outcome.err().map(|error| error.to_string());
        let mut last_error = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        if *last_error == error {
            return;
        }
        if let Some(error) = &error {
            tracing::warn!("cannot share certificates, keeping the certificates in use: {error}");
        } else {
            tracing::info!("sharing certificates again");
        }
        *last_error = error;
    }

    /// Returns `true` if the last upload for `names` was not long ago. Without this limit, two replicas with
    /// different operator keys would replace the values of each other all the time.
    pub(super) fn has_just_uploaded(&self, names: &OrderedNames) -> bool {
        let mut uploaded = self.uploaded.lock().unwrap_or_else(PoisonError::into_inner);
        let has_just = uploaded.get(names).is_some_and(|last| last.elapsed() < UPLOAD_INTERVAL_MIN);
        if !has_just {
            uploaded.insert(names.clone(), Instant::now());
        }
        has_just
    }
}

const UPLOAD_INTERVAL_MIN: Duration = Duration::from_mins(1);
