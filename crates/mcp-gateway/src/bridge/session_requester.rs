//! Forwards the server's questions and messages to the client of a legacy session.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use thruway_mcp::Revision;
use thruway_mcp::json_rpc::{Error, ErrorCode, Notification, write_notification};
use thruway_mcp::schema::{ClientCapabilities, JsonObject, methods};
use thruway_mcp_client::forwarding::{Answer, RawAnswer, Requester, Unsent};
use thruway_mcp_server::backend::{DroppedMessages, InterimMessage, PendingRequests, Question, Session};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::messages;
use super::outbox::Outbox;
use super::tasks::{Reserved, TaskIdMap, TaskIdTranslator as _};

/// Forwards the server's questions and messages to the client of a session, on the response stream of one
/// request.
pub(super) struct SessionRequester {
    pub(super) session: Arc<Session>,
    pub(super) outbox: Outbox,
    /// Maximum time to wait for the client's answer to a question of the server.
    pub(super) wait: Duration,
    /// Translates the client's task ids to the server's task ids, and back. `None` if the bridge does not
    /// forward tasks for this session.
    pub(super) task_ids: Option<TaskIdMap>,
    /// The reserved entry for the task, if the server may run the request as a task.
    pub(super) reserved: Option<Arc<Reserved>>,
}

impl Requester for SessionRequester {
    /// Returns the memory address of the session, which is unique while the session exists.
    fn key(&self) -> u64 {
        Arc::as_ptr(&self.session).addr() as u64
    }

    fn ask(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Pin<Box<dyn Future<Output = RawAnswer> + Send>> {
        if !can_answer(&self.session.client_capabilities(), method) {
            // This client cannot be the one that the server means. A client with the capability may have
            // canceled its call in the meantime.
            let reason = "the client has not declared the capability for this request";
            return Box::pin(async move { Err(Error::new(ErrorCode::METHOD_NOT_FOUND, reason)) });
        }
        // Do not keep the session alive, because the session may end before the client answers.
        let (pending, outbox, wait) = (self.session.pending.clone(), self.outbox.sender().clone(), self.wait);
        Box::pin(ask(
            question(method, params, self.task_ids.as_ref()),
            pending,
            outbox,
            wait,
            self.task_ids.clone(),
        ))
    }

    fn send_notification(&self, notification: &Notification<'_>) -> Option<Unsent> {
        let translated =
            notification.params.and_then(|params| self.task_ids.as_ref()?.with_client_task_id(params));
        let notification = Notification {
            method: notification.method.clone(),
            params: translated.as_deref().or(notification.params),
        };
        messages::log(&self.outbox, self.session.log_level(), &notification)
    }

    fn is_reader_of(&self, unsent: &Unsent) -> bool {
        unsent.reader() == self.outbox.reader()
    }

    /// The server has closed its event stream, and sends the remaining messages after a reconnect. Closes the
    /// client's response stream too, if the client's revision supports reconnects. The client then reconnects
    /// after the delay `retry`.
    fn disconnect(&self, retry: Duration) {
        if self.session.revision.primes_event_streams() {
            // If the queue is full, the response stream stays open. This is harmless.
            let _ = self.outbox.sender().try_send(InterimMessage::Disconnect(retry));
        }
    }

    fn handle_shared_answer(&self, answer: &Answer) {
        if let Some(reserved) = &self.reserved {
            // Ignore the error here, because the code that waits for the answer also gets it.
            let _ = reserved.settle(answer);
        }
    }
}

/// Forwards questions of the server that belong to no request. The client gets these questions on the event
/// stream of its session.
pub(super) struct OriginClient {
    pub(super) session: Weak<Session>,
    /// Maximum time to wait for the client's answer to a question of the server.
    pub(super) wait: Duration,
    /// Translates the client's task ids to the server's task ids, and back. `None` if the bridge does not
    /// forward tasks for this session.
    pub(super) task_ids: Option<TaskIdMap>,
}

impl Requester for OriginClient {
    fn key(&self) -> u64 {
        self.session.as_ptr().addr() as u64
    }

    fn ask(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Pin<Box<dyn Future<Output = RawAnswer> + Send>> {
        let session = self.session.upgrade();
        let Some((session, out_of_band)) =
            session.as_ref().and_then(|session| Some((session, session.out_of_band()?)))
        else {
            return Box::pin(async { Err(Error::internal("the session has ended")) });
        };
        let question = question(method, params, self.task_ids.as_ref());
        let (pending, task_ids) = (session.pending.clone(), self.task_ids.clone());
        Box::pin(ask(question, pending, out_of_band.outbox(), self.wait, task_ids))
    }

    /// Ignores log messages. A separate handler puts log messages that belong to no request into the log
    /// inbox of the session.
    fn send_notification(&self, _: &Notification<'_>) -> Option<Unsent> {
        None
    }
}

/// Forwards the notification `notifications/elicitation/complete`: the user has answered a question on a web
/// page. Only MCP revision 2025-11-25 defines this notification. Ignores all other notifications.
pub(super) fn send_out_of_band(
    session: &Session,
    method: &str,
    params: &JsonObject,
    dropped: &DroppedMessages,
) {
    if method != methods::NOTIFICATIONS_ELICITATION_COMPLETE || session.revision != Revision::R20251125 {
        return;
    }
    if let Some(out_of_band) = session.out_of_band() {
        let mut message = Vec::new();
        write_notification(&mut message, method, params);
        if out_of_band.outbox().try_send(InterimMessage::Message(message)).is_err() {
            dropped.note(1, "the client opened no event stream for messages that belong to no request");
        }
    }
}

async fn ask(
    question: Result<Question, Error>,
    pending: Arc<PendingRequests>,
    outbox: mpsc::Sender<InterimMessage>,
    wait: Duration,
    task_ids: Option<TaskIdMap>,
) -> RawAnswer {
    let question = question?;
    let answered = timeout(wait, pending.ask(&question, &outbox)).await;
    let mut answer =
        answered.map_err(|_| Error::internal("the client did not answer before the timeout"))??;
    if let Some(task_ids) = task_ids {
        task_ids.answered(&mut answer);
    }
    to_raw_value(&answer).map_err(|_| Error::internal("cannot write the client's answer as JSON"))
}

/// Returns `true` if the client has declared the capability to answer requests of this method.
fn can_answer(capabilities: &ClientCapabilities, method: &str) -> bool {
    match method {
        methods::ELICITATION_CREATE => capabilities.elicitation.is_some(),
        methods::SAMPLING_CREATE_MESSAGE => capabilities.sampling.is_some(),
        methods::ROOTS_LIST => capabilities.roots.is_some(),
        _ => true,
    }
}

/// Converts a question of the server to a question for the client. Removes the member `task`, because the
/// bridge does not support questions that the client answers in a task.
fn question(
    method: &str,
    params: Option<&RawValue>,
    task_ids: Option<&TaskIdMap>,
) -> Result<Question, Error> {
    let known = [methods::ELICITATION_CREATE, methods::SAMPLING_CREATE_MESSAGE, methods::ROOTS_LIST];
    let method = known.into_iter().find(|known| *known == method);
    let method = method.ok_or_else(|| {
        Error::new(
            ErrorCode::METHOD_NOT_FOUND,
            "unknown request: only elicitation, sampling and roots are supported",
        )
    })?;
    let translated = params.and_then(|params| task_ids?.with_client_task_id(params));
    let params = serde_json::from_str(translated.as_deref().or(params).map_or("{}", RawValue::get));
    let mut params: Value =
        params.map_err(|_| Error::invalid_params("the parameters of the request are nested too deeply"))?;
    if let Some(params) = params.as_object_mut() {
        params.shift_remove("task");
    }
    Ok(Question { method, params })
}
