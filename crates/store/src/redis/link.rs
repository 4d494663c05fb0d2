//! The current connections, and the times between attempts to connect.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::scripts::Connection;
use crate::health::StoreState;

/// The current connections, and the state for the status.
pub(super) struct Link {
    state: Mutex<LinkState>,
}

struct LinkState {
    /// Changes when the connections are lost, so that a late failure of an old connection has no effect.
    generation: u64,
    connections: Vec<Connection>,
    /// Index of the connection for the next operation.
    next: usize,
    /// Timeouts since the last success.
    timeouts: u32,
    state: StoreState,
    was_connected: bool,
    reconnects: u64,
    last_error: Option<String>,
}

impl Link {
    pub(super) const fn new() -> Self {
        let state = LinkState {
            generation: 0,
            connections: Vec::new(),
            next: 0,
            timeouts: 0,
            state: StoreState::Connecting,
            was_connected: false,
            reconnects: 0,
            last_error: None,
        };
        Self { state: Mutex::new(state) }
    }

    /// Returns a connection and its generation, if there is one.
    pub(super) fn pick(&self) -> Option<(u64, Connection)> {
        let mut state = self.lock();
        if state.connections.is_empty() {
            return None;
        }
        state.next = (state.next + 1) % state.connections.len();
        Some((state.generation, state.connections[state.next].clone()))
    }

    /// Returns the number of connections.
    pub(super) fn len(&self) -> usize {
        self.lock().connections.len()
    }

    /// Adds the first or another connection.
    pub(super) fn add(&self, connection: Connection) {
        let mut state = self.lock();
        if state.connections.is_empty() {
            state.reconnects += u64::from(state.was_connected);
            state.was_connected = true;
        }
        state.connections.push(connection);
        state.timeouts = 0;
        state.state = StoreState::Connected;
    }

    /// Records that an operation of a generation has succeeded.
    pub(super) fn succeed(&self, generation: u64) {
        let mut state = self.lock();
        if state.generation == generation {
            state.timeouts = 0;
        }
    }

    /// Records a timeout. Returns `true` if the connections are of no use.
    pub(super) fn time_out(&self, generation: u64) -> bool {
        let mut state = self.lock();
        if state.generation != generation {
            return false;
        }
        state.timeouts += 1;
        state.timeouts >= TIMEOUTS_MAX
    }

    /// Closes the connections of a generation. Returns `true` if this call closes them.
    pub(super) fn lose(&self, generation: u64, reason: &str) -> bool {
        let mut state = self.lock();
        if state.generation != generation || state.connections.is_empty() {
            return false;
        }
        state.generation += 1;
        state.connections.clear();
        state.state = StoreState::Disconnected;
        state.last_error = Some(reason.to_owned());
        true
    }

    /// Records that an attempt to connect failed. Returns `true` if the reason is new.
    pub(super) fn fail(&self, reason: &str) -> bool {
        let mut state = self.lock();
        state.state = StoreState::Disconnected;
        let is_new = state.last_error.as_deref() != Some(reason);
        state.last_error = Some(reason.to_owned());
        is_new
    }

    /// Returns the state, the number of reconnects, and the last error.
    pub(super) fn status(&self) -> (StoreState, u64, Option<String>) {
        let state = self.lock();
        (state.state, state.reconnects, state.last_error.clone())
    }

    fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Times between attempts to connect.
#[derive(Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Returns the time to the next attempt: from 100 ms to 2 s, with jitter.
    pub(super) fn next(&mut self) -> Duration {
        let longest = (BACKOFF_MIN * 2_u32.pow(self.failures.min(5))).min(BACKOFF_MAX);
        self.failures += 1;
        longest.mul_f64(0.5 + fastrand::f64() / 2.0).max(BACKOFF_MIN)
    }
}

/// Number of timeouts in a row after which the store connects again.
const TIMEOUTS_MAX: u32 = 2;

/// Age from which a lost connection is replaced at once. A server that refuses each operation gets no more attempts
/// than a server that refuses each connection.
pub(super) const STABLE_TIME: Duration = Duration::from_secs(10);

const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_become_rare_and_differ() {
        let mut backoff = Backoff::default();
        let times: Vec<_> = (0..20).map(|_| backoff.next()).collect();
        assert!(times.iter().all(|time| (BACKOFF_MIN..=BACKOFF_MAX).contains(time)), "{times:?}");
        assert!(times[10..].iter().all(|time| *time >= BACKOFF_MAX / 2), "{times:?}");
        assert!(times[10..].windows(2).any(|pair| pair[0] != pair[1]), "{times:?}");
    }
}
