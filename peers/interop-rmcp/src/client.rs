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

/// Answers the first question for a name, and declines all further ones.
pub(crate) struct Client {
    progress: UnboundedSender<ProgressNotificationParam>,
    updated: UnboundedSender<String>,
    is_asked: Mutex<bool>,
}

/// Notifications that the client has received.
pub(crate) struct Heard {
    pub(crate) progress: UnboundedReceiver<ProgressNotificationParam>,
    /// URIs of resources that changed.
    pub(crate) updated: UnboundedReceiver<String>,
}

impl Client {
    pub(crate) fn new() -> (Self, Heard) {
        let (progress, heard_progress) = unbounded_channel();
        let (updated, heard_updated) = unbounded_channel();
        let heard = Heard { progress: heard_progress, updated: heard_updated };
        (Self { progress, updated, is_asked: Mutex::new(false) }, heard)
    }

    fn answer(&self, message: &str) -> Result<ElicitResult, ErrorData> {
        if message != "What is your name?" {
            return Err(ErrorData::invalid_params(format!("asked {message:?}"), None));
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
            _ => Err(ErrorData::invalid_params("that is no form", None)),
        }
    }

    // The receiver may be gone.
    async fn on_progress(&self, notification: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let _gone = self.progress.send(notification);
    }

    async fn on_resource_updated(
        &self,
        notification: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let _gone = self.updated.send(notification.uri);
    }
}

/// Returns the next notification, within [`PATIENCE`].
pub(crate) async fn next<T>(heard: &mut UnboundedReceiver<T>) -> anyhow::Result<T> {
    let next = timeout(PATIENCE, heard.recv()).await.context("there was no notification")?;
    next.context("the client is gone")
}

pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
