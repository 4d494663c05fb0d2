//! The refreshes of all sessions of a process. Requests of the same session share a refresh.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::cookies::Session;

/// The refreshes of all sessions.
#[derive(Default)]
pub(super) struct Refreshes {
    /// Refreshes by the digest of the refresh token.
    by_token: Mutex<HashMap<[u8; 32], Refreshing>>,
    /// After a failure of the provider, no refresh starts before this time, in seconds since the Unix epoch.
    paused_until: AtomicU64,
}

/// A refresh in progress, or a complete refresh.
struct Refreshing {
    /// Start, in seconds since the Unix epoch.
    began: u64,
    outcome: watch::Receiver<Option<Refreshed>>,
}

/// The outcome of a refresh.
#[derive(Clone)]
pub(super) enum Refreshed {
    /// The new session, and its cookie.
    Session(Box<Session>, Option<String>),
    /// The provider has ended the session.
    Ended,
    /// The provider does not respond, or its response is invalid.
    Failed,
}

impl Refreshing {
    /// Returns `true` if the refresh runs, or has neither failed nor stopped without an outcome.
    fn is_usable(&self) -> bool {
        match &*self.outcome.borrow() {
            Some(Refreshed::Failed) => false,
            Some(_) => true,
            None => self.outcome.has_changed().is_ok(),
        }
    }
}

impl Refreshes {
    /// Returns `true` if the provider has failed a short time ago.
    pub(super) fn are_paused(&self, now: u64) -> bool {
        now < self.paused_until.load(Ordering::Relaxed)
    }

    /// Starts no refresh before the time `until`, in seconds since the Unix epoch.
    pub(super) fn pause(&self, until: u64) {
        self.paused_until.store(until, Ordering::Relaxed);
    }

    /// Returns the outcome of the refresh with this token. Calls `start` if no request has started this
    /// refresh, or if the refresh has failed.
    pub(super) fn begin(
        &self,
        token: &str,
        now: u64,
        start: impl FnOnce(watch::Sender<Option<Refreshed>>),
    ) -> watch::Receiver<Option<Refreshed>> {
        let mut by_token = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        by_token.retain(|_, refreshing| now < refreshing.began.saturating_add(KEPT_SECONDS));
        let token: [u8; 32] = Sha256::digest(token).into();
        if let Some(refreshing) = by_token.get(&token).filter(|refreshing| refreshing.is_usable()) {
            return refreshing.outcome.clone();
        }
        let (sender, outcome) = watch::channel(None);
        by_token.insert(token, Refreshing { began: now, outcome: outcome.clone() });
        drop(by_token);
        start(sender);
        outcome
    }
}

impl fmt::Debug for Refreshes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refreshes").finish_non_exhaustive()
    }
}

/// Time for which other requests of a session get the outcome of its refresh, in seconds. The browser may
/// send requests with the previous cookie until it has received the response with the new cookie.
const KEPT_SECONDS: u64 = 60;
