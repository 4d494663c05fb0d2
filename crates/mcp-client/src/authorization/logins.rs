//! The times of logins, which do not count toward timeouts, and the map of authorizers.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::time::Instant;

/// The number of logins in progress, and the end of the last login.
#[derive(Default)]
pub(super) struct Logins(Mutex<State>);

#[derive(Default)]
struct State {
    count: usize,
    end: Option<Instant>,
}

/// A login in progress. Dropping this value marks the end of the login.
pub(super) struct Login<'a>(&'a Logins);

impl Logins {
    pub(super) fn begin(&self) -> Login<'_> {
        self.state().count += 1;
        Login(self)
    }

    /// Returns the time at which the last login ended, or the current time while a login is in progress.
    pub(super) fn last(&self) -> Option<Instant> {
        let state = self.state();
        if state.count > 0 { Some(Instant::now()) } else { state.end }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Login<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.count -= 1;
        state.end = Some(Instant::now());
    }
}

/// The authorizers of one [`OAuth`](super::OAuth), by the URL of the server. The values are untyped,
/// because an authorizer itself contains this map.
#[derive(Clone, Default)]
pub(super) struct Authorizers(Arc<Mutex<ByServerUrl>>);

type ByServerUrl = HashMap<Box<str>, Weak<dyn Any + Send + Sync>>;

impl Authorizers {
    /// Returns the authorizer for `server_url`. Creates the authorizer with `make` if necessary.
    pub(super) fn get_or_create<A: Any + Send + Sync>(
        &self,
        server_url: &str,
        make: impl FnOnce() -> A,
    ) -> Arc<A> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sent_credentials = all.get(server_url).and_then(Weak::upgrade);
        if let Some(sent_credentials) =
            sent_credentials.and_then(|sent_credentials| sent_credentials.downcast().ok())
        {
            return sent_credentials;
        }
        all.retain(|_, one| one.strong_count() > 0);
        let authorizer = Arc::new(make());
        let weak: Weak<A> = Arc::downgrade(&authorizer);
        all.insert(server_url.into(), weak);
        authorizer
    }
}
