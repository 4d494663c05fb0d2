//! How long an answer is waited for.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thruway_mcp::schema::ProgressNotificationParams;
use tokio::time::{Instant, sleep_until};

use super::error::McpClientError;

/// What is told of progress.
pub(crate) type OnProgress = Arc<dyn Fn(ProgressNotificationParams) + Send + Sync>;

/// The progress of a request.
pub(crate) struct Progress {
    last: Mutex<Option<Instant>>,
    on_progress: OnProgress,
}

/// How long an answer is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// From the beginning, or the last progress.
    pub(super) timeout: Duration,
    /// In all.
    pub(super) timeout_max: Duration,
}

impl Progress {
    pub(super) fn new(on_progress: OnProgress) -> Self {
        Self { last: Mutex::new(None), on_progress }
    }

    pub(super) fn handle(&self, params: ProgressNotificationParams) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        (self.on_progress)(params);
    }

    fn last(&self) -> Option<Instant> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Patience {
    /// Waits for `answer`, for longer if there was progress or a question is being answered.
    ///
    /// # Errors
    /// That of `answer`, or that it took too long.
    pub(super) async fn wait<T>(
        self,
        progress: Option<&Progress>,
        is_questioned: impl Fn() -> bool,
        answer: impl Future<Output = Result<T, McpClientError>>,
    ) -> Result<T, McpClientError> {
        let began = Instant::now();
        let latest = began + self.timeout_max;
        let mut answer = std::pin::pin!(answer);
        let mut deadline = (began + self.timeout).min(latest);
        let mut sleep = std::pin::pin!(sleep_until(deadline));
        loop {
            tokio::select! {
                biased;
                outcome = &mut answer => return outcome,
                () = &mut sleep => {}
            }
            let last = if is_questioned() { Some(Instant::now()) } else { progress.and_then(Progress::last) };
            let extended = last.map_or(deadline, |last| last + self.timeout).min(latest);
            if extended <= deadline {
                return Err(McpClientError::TimedOut);
            }
            deadline = extended;
            sleep.as_mut().reset(deadline);
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("last", &self.last()).finish_non_exhaustive()
    }
}
