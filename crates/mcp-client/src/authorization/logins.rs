//! When people log in, and nobody should lose patience.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::time::Instant;

use super::OAuth;
use super::authorizer::Authorizer;

/// How many people are logging in, and when the last one was done.
#[derive(Default)]
pub(super) struct Logins(Mutex<State>);

#[derive(Default)]
struct State {
    count: usize,
    end: Option<Instant>,
}

/// A person logs in while this lives.
pub(super) struct Login<'a>(&'a Logins);

impl Logins {
    pub(super) fn begin(&self) -> Login<'_> {
        self.state().count += 1;
        Login(self)
    }

    /// Until when somebody was logging in: until now, if somebody is.
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

/// The authorizers that there are, by the URLs of their servers.
#[derive(Clone, Default)]
pub(super) struct Authorizers(Arc<Mutex<HashMap<Box<str>, Weak<Authorizer>>>>);

impl Authorizer {
    /// The one of a client of the server at this URL.
    pub(crate) fn of(oauth: OAuth, server_url: &str) -> Arc<Self> {
        let all = oauth.authorizers.clone();
        let mut all = all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(standing) = all.get(server_url).and_then(Weak::upgrade) {
            return standing;
        }
        all.retain(|_, one| one.strong_count() > 0);
        let begun = Arc::new(Self::new(oauth, server_url));
        all.insert(server_url.into(), Arc::downgrade(&begun));
        begun
    }
}
