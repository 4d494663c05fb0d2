//! Requests about MCP tasks, and the polling intervals of a client that waits for an MCP task.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thruway_mcp::schema::WorkingTask;
use tokio::time::{Instant, sleep};

use super::client::McpClient;
use super::deadline::later;
use super::eras::Call;
use super::error::McpClientError;

/// Sends a request about the MCP task `id`.
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

/// The state of a loop that polls an MCP task until a time limit.
pub(super) struct Polls<'a> {
    client: &'a McpClient,
    latest: Instant,
    /// Polling interval that the server requests.
    pace: Duration,
    /// Minimum delay before the next poll after a failure. Doubles with each failure, up to [`PAUSE_MAX`].
    rest: Duration,
    /// The error of the last poll, if it failed.
    failure: Option<McpClientError>,
}

impl<'a> Polls<'a> {
    pub(crate) fn new(client: &'a McpClient) -> Self {
        let latest = later(Instant::now(), client.options.request_timeouts.timeout_max);
        Self { client, latest, pace: Duration::ZERO, rest: Duration::ZERO, failure: None }
    }

    /// Uses the polling interval that the server requests in `task`, and resets the delay after failures.
    pub(super) fn paces(&mut self, task: &WorkingTask) {
        self.pace = task.poll_interval_ms.map_or(PAUSE, Duration::from_millis).clamp(PAUSE_MIN, PAUSE_MAX);
        (self.rest, self.failure) = (Duration::ZERO, None);
    }

    /// Ignores a temporary failure of a poll and increases the delay before the next poll.
    ///
    /// # Errors
    /// Fails if the error is permanent, or if the client is closed.
    pub(super) fn tolerate(&mut self, error: McpClientError) -> Result<(), McpClientError> {
        if !error.is_temporary() || self.client.is_closed() {
            return Err(error);
        }
        self.rest = (self.rest * 2).clamp(REST_MIN, PAUSE_MAX);
        self.failure = Some(error);
        Ok(())
    }

    /// Waits until it is time for the next poll.
    ///
    /// # Errors
    /// Fails after the time limit: returns the error of the last poll, or `TimedOut` if the last poll
    /// succeeded.
    pub(super) async fn pause(&mut self) -> Result<(), McpClientError> {
        sleep(self.pace.max(self.rest)).await;
        if Instant::now() < self.latest {
            return Ok(());
        }
        Err(self.failure.take().unwrap_or(McpClientError::TimedOut))
    }
}

/// Cancels the MCP task `id` when dropped.
pub(super) struct CancelOnDrop<'a> {
    pub(super) client: &'a McpClient,
    pub(super) id: Option<&'a str>,
}

impl Drop for CancelOnDrop<'_> {
    /// The destructor cancels the MCP task because no other code learns that the caller stopped waiting.
    fn drop(&mut self) {
        let Some(id) = self.id.map(str::to_owned) else { return };
        let client = self.client.clone();
        // Errors are ignored: a server that has exited no longer runs the MCP task.
        self.client.conversation.spawn(async move { client.cancel_task(&id).await });
    }
}

/// Polling interval if the server does not request an interval.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(30);
const REST_MIN: Duration = Duration::from_millis(100);
