//! Pauses between two attempts to connect to a server.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Decides whether an earlier attempt to connect delays the next attempt.
#[derive(Default)]
pub(super) struct Reconnecting {
    /// Time at which the server was back after a loss.
    returned: Mutex<Option<Instant>>,
}

impl Reconnecting {
    /// Notes that the server is back after a loss. Attempts before this time delay no further attempts.
    pub(super) fn note_returned(&self) {
        *self.returned.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Returns `true` if an attempt at the time `at` delays the next attempt.
    pub(super) fn is_delayed_by(&self, at: Instant, pause: Duration) -> bool {
        let returned = *self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        at.elapsed() < pause && returned.is_none_or(|returned| at > returned)
    }
}

/// Minimum time between two attempts to connect for the requests of clients, after the server has closed a
/// connection.
pub(super) const RECONNECT_PAUSE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn attempt_before_the_return_of_the_server_delays_no_attempt() {
        let reconnecting = Reconnecting::default();
        let attempt = Instant::now();
        assert!(reconnecting.is_delayed_by(attempt, RECONNECT_PAUSE));
        tokio::time::advance(RECONNECT_PAUSE / 2).await;
        reconnecting.note_returned();
        assert!(!reconnecting.is_delayed_by(attempt, RECONNECT_PAUSE));
        tokio::time::advance(RECONNECT_PAUSE / 4).await;
        let attempt = Instant::now();
        assert!(reconnecting.is_delayed_by(attempt, RECONNECT_PAUSE));
        tokio::time::advance(RECONNECT_PAUSE).await;
        assert!(!reconnecting.is_delayed_by(attempt, RECONNECT_PAUSE));
    }
}
