//! Requests about tasks, and the pace of the client that waits for a task.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thruway_mcp::schema::WorkingTask;
use tokio::time::{Instant, sleep};

use super::client::McpClient;
use super::deadline::later;
use super::eras::Call;
use super::error::McpClientError;

/// Sends a request about a task.
pub(super) async fn perform<R: DeserializeOwned, P: Serialize>(
    client: &McpClient,
    method: &'static str,
    id: &str,
    params: P,
) -> Result<R, McpClientError> {
    client.perform(&Call { name: Some(id), ..client.call(method, params) }).await
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskParams<'a> {
    pub(super) task_id: &'a str,
}

/// The polling loop for a task, with its time limit.
pub(super) struct Polls<'a> {
    client: &'a McpClient,
    latest: Instant,
    /// Polling interval that the server requests.
    pace: Duration,
    /// Additional delay after failures. It grows with each failure.
    rest: Duration,
    /// The error of the last poll, if it failed.
    failure: Option<McpClientError>,
}

impl<'a> Polls<'a> {
    pub(crate) fn new(client: &'a McpClient) -> Self {
        let latest = later(Instant::now(), client.options.request_timeouts.timeout_max);
        Self { client, latest, pace: Duration::ZERO, rest: Duration::ZERO, failure: None }
    }

    /// Applies the polling interval of a task in progress, and resets the delay after failures.
    pub(super) fn paces(&mut self, task: &WorkingTask) {
        self.pace = task.poll_interval_ms.map_or(PAUSE, Duration::from_millis).clamp(PAUSE_MIN, PAUSE_MAX);
        (self.rest, self.failure) = (Duration::ZERO, None);
    }

    /// Accepts a temporary failure of a poll and increases the delay.
    ///
    /// # Errors
    /// The error is permanent, or the client is closed.
    pub(super) fn forgive(&mut self, error: McpClientError) -> Result<(), McpClientError> {
        if !error.is_temporary() || self.client.is_closed() {
            return Err(error);
        }
        self.rest = (self.rest * 2).clamp(REST_MIN, PAUSE_MAX);
        self.failure = Some(error);
        Ok(())
    }

    /// Waits until the next poll.
    ///
    /// # Errors
    /// The time limit is reached. Returns the error of the last poll, if it failed, or `TimedOut`.
    pub(super) async fn pause(&mut self) -> Result<(), McpClientError> {
        sleep(self.pace.max(self.rest)).await;
        if Instant::now() < self.latest {
            return Ok(());
        }
        Err(self.failure.take().unwrap_or(McpClientError::TimedOut))
    }
}

/// Cancels a task when dropped.
pub(super) struct CancelOnDrop<'a> {
    pub(super) client: &'a McpClient,
    pub(super) id: Option<&'a str>,
}

impl Drop for CancelOnDrop<'_> {
    /// The destructor cancels the task because no other code learns that the caller stopped waiting.
    fn drop(&mut self) {
        let Some(id) = self.id.map(str::to_owned) else { return };
        let client = self.client.clone();
        // A server that has exited does not run the task either.
        self.client.conversation.spawn(async move { client.cancel_task(&id).await });
    }
}

/// Polling interval if the server requests none.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(30);
const REST_MIN: Duration = Duration::from_millis(100);
