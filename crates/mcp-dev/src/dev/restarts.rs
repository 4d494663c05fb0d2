//! The pace of restarts. A server that writes into a watched directory would otherwise restart without end.

use std::time::Duration;

use tokio::time::Instant;

/// Counts the restarts in quick succession.
pub(super) struct RestartPace {
    /// Time at which the server has started last.
    deployed: Option<Instant>,
    /// Number of changes in a row that followed soon after a start.
    quick: u32,
}

impl RestartPace {
    pub(super) const fn new() -> Self {
        Self { deployed: None, quick: 0 }
    }

    /// Records that the server has started.
    pub(super) fn deployed(&mut self, now: Instant) {
        self.deployed = Some(now);
    }

    /// Returns the pause before the next restart, if the server restarts again and again. `is_change` is
    /// `false` if a person requests the restart.
    pub(super) fn pause_before_restart(&mut self, is_change: bool, now: Instant) -> Option<Duration> {
        let is_quick = self.deployed.is_some_and(|deployed| now.duration_since(deployed) < QUICK);
        self.quick = if is_change && is_quick { self.quick.saturating_add(1) } else { 0 };
        let doublings = self.quick.checked_sub(QUICK_MAX)?;
        Some(PAUSE_MAX.min(PAUSE_MIN * (1 << doublings.min(16))))
    }
}

/// Maximum time between a start and the change that counts as a consequence of the start.
const QUICK: Duration = Duration::from_secs(5);

/// Number of quick restarts in a row from which pauses precede the restarts.
const QUICK_MAX: u32 = 5;

/// First pause. Each further pause is twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(32);

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the pauses, in seconds, before restarts that follow each other after `gap`.
    fn pauses(pace: &mut RestartPace, gap: Duration, restarts: usize) -> Vec<Option<u64>> {
        let now = Instant::now();
        let pauses = (0..restarts).map(|_| {
            pace.deployed(now);
            pace.pause_before_restart(true, now + gap).map(|pause| pause.as_secs())
        });
        pauses.collect()
    }

    #[test]
    fn fifth_quick_restart_waits_and_the_pauses_grow() {
        let mut pace = RestartPace::new();
        let expected = [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 32].map(|pause| (pause > 0).then_some(pause));
        assert_eq!(pauses(&mut pace, Duration::from_millis(4999), 11), expected);
        assert_eq!(pauses(&mut pace, QUICK, 1), [None], "the author has changed a file");
        assert_eq!(pauses(&mut pace, Duration::ZERO, 5), [None, None, None, None, Some(1)]);
        let now = Instant::now();
        pace.deployed(now);
        assert_eq!(pace.pause_before_restart(false, now), None, "the inspector requests a restart");
        assert_eq!(pauses(&mut pace, Duration::ZERO, 1), [None]);
    }

    #[test]
    fn many_restarts_keep_the_longest_pause() {
        let all = pauses(&mut RestartPace::new(), Duration::ZERO, 100);
        assert_eq!(all.last(), Some(&Some(32)));
    }
}
