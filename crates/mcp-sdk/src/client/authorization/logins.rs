//! When people log in, and nobody should lose patience.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

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
