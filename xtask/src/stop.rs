//! The clock of the development tools, and the two events that end a run early: the time limit and a signal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Interval between the polls of a wait. Shorter intervals would disturb a load on the same machine.
const TICK: Duration = Duration::from_millis(20);

/// The time limit and the signals that end a run early.
pub(super) struct Stop {
    deadline: Instant,
    signalled: Arc<AtomicBool>,
}

impl Stop {
    /// Starts the time limit, and handles termination signals, so that the run ends its servers before it
    /// exits.
    pub(super) fn new(limit: Duration) -> anyhow::Result<Self> {
        let signalled = Arc::new(AtomicBool::new(false));
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&signalled))
                .context("cannot install a signal handler")?;
        }
        Ok(Self { deadline: now() + limit, signalled })
    }

    /// Returns an error after the time limit or a signal.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.signalled.load(Ordering::Relaxed) {
            bail!("interrupted by a signal");
        }
        if now() >= self.deadline {
            bail!("the time limit has passed");
        }
        Ok(())
    }

    /// Waits until `poll` returns a value.
    ///
    /// # Errors
    /// Returns the errors of [`Stop::check`] and of `poll`. Returns an error if `poll` returns no value
    /// within `limit`.
    pub(super) fn wait<T>(
        &self,
        what: &str,
        limit: Duration,
        mut poll: impl FnMut() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let end = now() + limit;
        loop {
            if let Some(value) = poll()? {
                return Ok(value);
            }
            self.check()?;
            if now() >= end {
                bail!("waited {} s for {what}", limit.as_secs());
            }
            thread::sleep(TICK);
        }
    }
}

/// Returns the current time.
#[expect(clippy::disallowed_methods, reason = "the only clock of the development tools")]
pub(super) fn now() -> Instant {
    Instant::now()
}
