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

/// When a task is asked for: again and again, until there is no more time.
pub(super) struct Polls<'a> {
    client: &'a McpClient,
    latest: Instant,
    /// How often the server wants to be asked.
    pace: Duration,
    /// How long it is spared because it has failed: longer and longer.
    rest: Duration,
    /// Why nothing was learnt the last time.
    failure: Option<McpClientError>,
}

impl<'a> Polls<'a> {
    pub(crate) fn new(client: &'a McpClient) -> Self {
        let latest = later(Instant::now(), client.options.patience.timeout_max);
        Self { client, latest, pace: Duration::ZERO, rest: Duration::ZERO, failure: None }
    }

    /// The task goes on, and says how often it is to be asked for.
    pub(super) fn paces(&mut self, task: &WorkingTask) {
        self.pace = task.poll_interval_ms.map_or(PAUSE, Duration::from_millis).clamp(PAUSE_MIN, PAUSE_MAX);
        (self.rest, self.failure) = (Duration::ZERO, None);
    }

    /// The task goes on although nothing was learnt of it, if the server may answer the next time.
    ///
    /// # Errors
    /// It will not.
    pub(super) fn forgive(&mut self, error: McpClientError) -> Result<(), McpClientError> {
        if !error.is_temporary() || self.client.is_closed() {
            return Err(error);
        }
        self.rest = (self.rest * 2).clamp(REST_MIN, PAUSE_MAX);
        self.failure = Some(error);
        Ok(())
    }

    /// Waits until the task is to be asked for again.
    ///
    /// # Errors
    /// There is no more time: why nothing was learnt the last time, if that is so.
    pub(super) async fn pause(&mut self) -> Result<(), McpClientError> {
        sleep(self.pace.max(self.rest)).await;
        if Instant::now() < self.latest {
            return Ok(());
        }
        Err(self.failure.take().unwrap_or(McpClientError::TimedOut))
    }
}

/// Gives a task up when it is dropped.
pub(super) struct GivesUp<'a> {
    pub(super) client: &'a McpClient,
    pub(super) id: Option<&'a str>,
}

impl Drop for GivesUp<'_> {
    /// There is no other place that learns that nobody waits any more.
    fn drop(&mut self) {
        let Some(id) = self.id.map(str::to_owned) else { return };
        let client = self.client.clone();
        // A server that is gone does nothing either.
        self.client.conversation.spawn(async move { client.cancel_task(&id).await });
    }
}

/// How often a task is asked for of which it is not said.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(30);
const REST_MIN: Duration = Duration::from_millis(100);
