//! Timeouts of requests.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thruway_mcp::schema::ProgressNotificationParams;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, sleep_until};

use super::error::McpClientError;
use super::requester::Unsent;

/// Receives each progress report of a request. Returns `None`, or a message that the bridge can send to its
/// client only after the client has read earlier messages. The caller then delivers this message.
pub type OnProgress = Arc<dyn Fn(ProgressNotificationParams) -> Option<Unsent> + Send + Sync>;

/// The callback for the progress reports of a request, and the time of the last report.
pub struct Progress {
    last: Mutex<Option<Instant>>,
    on_progress: OnProgress,
}

/// Timeouts of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestTimeouts {
    /// Maximum time without an answer, from the start of the request or from its last progress report.
    pub(super) timeout: Duration,
    /// Maximum total time of the request.
    pub(super) timeout_max: Duration,
}

impl Progress {
    pub(super) fn new(on_progress: OnProgress) -> Self {
        Self { last: Mutex::new(None), on_progress }
    }

    pub(super) fn handle(&self, params: ProgressNotificationParams) -> Option<Unsent> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        (self.on_progress)(params)
    }

    fn last(&self) -> Option<Instant> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestTimeouts {
    /// Waits for `answer` until the timeout. Progress reports extend the timeout, and so does the time during
    /// which the client answers elicitation, sampling and roots requests of the server. The timeout does not
    /// include the time of a login, because logins have a separate timeout. `waited_until` returns the time
    /// at which the last login ended.
    ///
    /// # Errors
    /// Returns the error of `answer`, or `TimedOut` after the timeout.
    pub(super) async fn wait<T>(
        self,
        progress: Option<&Progress>,
        is_answering_question: impl Fn() -> bool,
        waited_until: impl Fn() -> Option<Instant>,
        mut answer: Pin<&mut impl Future<Output = Result<T, McpClientError>>>,
    ) -> Result<T, McpClientError> {
        let began = Instant::now();
        let mut latest = later(began, self.timeout_max);
        let mut deadline = later(began, self.timeout).min(latest);
        let mut sleep = pin!(sleep_until(deadline));
        loop {
            tokio::select! {
                biased;
                outcome = &mut answer => return outcome,
                // A server that sends messages without a pause could use up the task budget of tokio.
                // Without `unconstrained`, the timer would then never fire.
                () = unconstrained(&mut sleep) => {}
            }
            let waited_until = waited_until();
            latest = waited_until.map_or(latest, |until| latest.max(later(until, self.timeout)));
            let last = if is_answering_question() {
                Some(Instant::now())
            } else {
                progress.and_then(Progress::last)
            };
            let last = last.max(waited_until);
            let extended = last.map_or(deadline, |last| later(last, self.timeout)).min(latest);
            if extended <= deadline {
                return Err(McpClientError::TimedOut);
            }
            deadline = extended;
            sleep.as_mut().reset(deadline);
        }
    }
}

/// Returns `instant` plus `duration`. Limits `duration` to [`FOR_EVER`], so that the addition cannot
/// overflow.
pub(super) fn later(instant: Instant, duration: Duration) -> Instant {
    instant + duration.min(FOR_EVER)
}

/// One year: longer than any wait, and short enough to be added to a time without an overflow.
pub(super) const FOR_EVER: Duration = Duration::from_hours(24 * 365);

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("last", &self.last()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    async fn respond_after(answer: u64, login: Option<u64>) -> Result<(), McpClientError> {
        let second = Duration::from_secs(1);
        let request_timeouts = RequestTimeouts { timeout: second, timeout_max: second };
        let end = login.map(|millis| Instant::now() + Duration::from_millis(millis));
        let answer = pin!(async {
            sleep(Duration::from_millis(answer)).await;
            Ok(())
        });
        request_timeouts.wait(None, || false, || end.map(|end| end.min(Instant::now())), answer).await
    }

    /// Regression test: adding such a timeout to the current time overflowed, and the call panicked.
    #[tokio::test(start_paused = true)]
    async fn maximum_timeout_never_expires() {
        let request_timeouts = RequestTimeouts { timeout: Duration::MAX, timeout_max: Duration::MAX };
        let answer = std::pin::pin!(async {
            sleep(Duration::from_hours(1)).await;
            Ok(())
        });
        let login_ended = Some(Instant::now());
        assert_eq!(request_timeouts.wait(None, || true, || login_ended, answer).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_starts_when_login_ends() {
        assert_eq!(respond_after(900, None).await, Ok(()));
        assert_eq!(respond_after(1100, None).await, Err(McpClientError::TimedOut));
        for login in [200, 900, 1500, 5000] {
            assert_eq!(respond_after(login + 900, Some(login)).await, Ok(()), "{login}");
            assert_eq!(
                respond_after(login + 1100, Some(login)).await,
                Err(McpClientError::TimedOut),
                "{login}"
            );
        }
    }
}
