//! The client's responses to elicitation, and its queues of notifications.

use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context as _;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, Implementation, ProgressNotificationParam, ResourceUpdatedNotificationParam,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

/// Answers the first request for a name, and declines all later requests.
pub(crate) struct Client {
    progress: UnboundedSender<ProgressNotificationParam>,
    updated: UnboundedSender<String>,
    is_asked: Mutex<bool>,
}

/// Queues of the notifications that the client has received.
pub(crate) struct Notifications {
    pub(crate) progress: UnboundedReceiver<ProgressNotificationParam>,
    /// URIs of updated resources.
    pub(crate) updated: UnboundedReceiver<String>,
}

impl Client {
    pub(crate) fn new() -> (Self, Notifications) {
        let (progress, progress_receiver) = unbounded_channel();
        let (updated, updated_receiver) = unbounded_channel();
        let notifications = Notifications { progress: progress_receiver, updated: updated_receiver };
        (Self { progress, updated, is_asked: Mutex::new(false) }, notifications)
    }

    fn answer(&self, message: &str) -> Result<ElicitResult, ErrorData> {
        if message != "What is your name?" {
            return Err(ErrorData::invalid_params(format!("unexpected elicitation: {message:?}"), None));
        }
        let mut is_asked = self.is_asked.lock().unwrap();
        if std::mem::replace(&mut *is_asked, true) {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        }
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"name": "Grace"})))
    }
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        ClientConfig::new(capabilities, Implementation::new("interop", "1.0"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        match request {
            ElicitRequestParams::FormElicitationParams { message, .. } => self.answer(&message),
            _ => Err(ErrorData::invalid_params("the elicitation is not a form", None)),
        }
    }

    // Ignores a dropped receiver.
    async fn on_progress(&self, notification: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let _ignored = self.progress.send(notification);
    }

    async fn on_resource_updated(
        &self,
        notification: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let _ignored = self.updated.send(notification.uri);
    }
}

/// Returns the next notification, within [`NOTIFICATION_TIMEOUT`].
pub(crate) async fn next<T>(notifications: &mut UnboundedReceiver<T>) -> anyhow::Result<T> {
    let next = timeout(NOTIFICATION_TIMEOUT, notifications.recv())
        .await
        .context("timeout while waiting for a notification")?;
    next.context("the client was dropped")
}

pub(crate) const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(5);
