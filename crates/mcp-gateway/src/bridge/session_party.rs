//! The client of a session of the legacy era, which is asked and told what a server behind a bridge says.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use thruway_mcp::Revision;
use thruway_mcp::json_rpc::{Error, ErrorCode, Notification, write_notification};
use thruway_mcp::schema::{ClientCapabilities, JsonObject, methods};
use thruway_mcp_client::forwarding::{Answer, Party, RawAnswer, Unsent};
use thruway_mcp_server::backend::{DroppedMessages, PendingRequests, Question, Said, Session};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::messages;
use super::outbox::Outbox;
use super::tasks::{Names, Reserved, TaskNames as _};

/// The client of a session, asked and told on the stream of one of its requests.
pub(super) struct SessionParty {
    pub(super) session: Arc<Session>,
    pub(super) outbox: Outbox,
    /// How long an answer is waited for.
    pub(super) wait: Duration,
    /// How the client and the server call tasks, if there may be any.
    pub(super) names: Option<Names>,
    /// The place of the task that the request is to become.
    pub(super) reserved: Option<Arc<Reserved>>,
}

impl Party for SessionParty {
    /// The place of the session in memory is nobody else's for as long as it is there.
    fn key(&self) -> u64 {
        Arc::as_ptr(&self.session).addr() as u64
    }

    fn ask(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Pin<Box<dyn Future<Output = RawAnswer> + Send>> {
        if !can_answer(&self.session.client_capabilities(), method) {
            // The question may belong to a call of another client, which has given that call up.
            let reason = "the client does not have the capability for this request";
            return Box::pin(async move { Err(Error::new(ErrorCode::METHOD_NOT_FOUND, reason)) });
        }
        // Not the session: it may end meanwhile.
        let (pending, outbox, wait) = (self.session.pending.clone(), self.outbox.sender().clone(), self.wait);
        Box::pin(ask(
            question(method, params, self.names.as_ref()),
            pending,
            outbox,
            wait,
            self.names.clone(),
        ))
    }

    fn tell(&self, notification: &Notification<'_>) -> Option<Unsent> {
        let told = notification.params.and_then(|params| self.names.as_ref()?.told(params));
        let notification = Notification {
            method: notification.method.clone(),
            params: told.as_deref().or(notification.params),
        };
        messages::log(&self.outbox, self.session.log_level(), &notification)
    }

    fn is_reader_of(&self, unsent: &Unsent) -> bool {
        unsent.reader() == self.outbox.reader()
    }

    /// Closes the stream of the client too, if it knows how to come back: neither side keeps a connection
    /// open meanwhile.
    fn disconnect(&self, retry: Duration) {
        if self.session.revision.primes_event_streams() {
            // Nothing is lost if the outbox is full: the stream just stays open.
            let _ = self.outbox.sender().try_send(Said::Disconnect(retry));
        }
    }

    fn hear(&self, answer: &Answer) {
        if let Some(reserved) = &self.reserved {
            // Whoever waits for the answer is told what is wrong with it.
            let _ = reserved.settle(answer);
        }
    }
}

/// The client of a session, asked what belongs to none of its requests: on the stream on which the server
/// speaks by itself.
pub(super) struct AbsentParty {
    pub(super) session: Weak<Session>,
    /// How long an answer is waited for.
    pub(super) wait: Duration,
    /// How the client and the server call tasks, if there may be any.
    pub(super) names: Option<Names>,
}

impl Party for AbsentParty {
    fn key(&self) -> u64 {
        self.session.as_ptr().addr() as u64
    }

    fn ask(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Pin<Box<dyn Future<Output = RawAnswer> + Send>> {
        let session = self.session.upgrade();
        let Some((session, asides)) = session.as_ref().and_then(|session| Some((session, session.asides()?)))
        else {
            return Box::pin(async { Err(Error::internal("the session has ended")) });
        };
        let question = question(method, params, self.names.as_ref());
        let (pending, names) = (session.pending.clone(), self.names.clone());
        Box::pin(ask(question, pending, asides.outbox(), self.wait, names))
    }

    /// Log messages outside of requests go to the log inbox of the session.
    fn tell(&self, _: &Notification<'_>) -> Option<Unsent> {
        None
    }
}

/// Tells the client of a session that the user is done with a page (`notifications/elicitation/complete`),
/// which only clients of 2025-11-25 know. Other notifications do not cross.
pub(super) fn tell_aside(session: &Session, method: &str, params: &JsonObject, dropped: &DroppedMessages) {
    if method != methods::NOTIFICATIONS_ELICITATION_COMPLETE || session.revision != Revision::R20251125 {
        return;
    }
    if let Some(asides) = session.asides() {
        let mut message = Vec::new();
        write_notification(&mut message, method, params);
        if asides.outbox().try_send(Said::Message(message)).is_err() {
            dropped.note(1, "the client opens no stream for messages outside of its requests");
        }
    }
}

async fn ask(
    question: Result<Question, Error>,
    pending: Arc<PendingRequests>,
    outbox: mpsc::Sender<Said>,
    wait: Duration,
    names: Option<Names>,
) -> RawAnswer {
    let question = question?;
    let answered = timeout(wait, pending.ask(&question, &outbox)).await;
    let mut answer = answered.map_err(|_| Error::internal("the client has not answered in time"))??;
    if let Some(names) = names {
        names.answered(&mut answer);
    }
    to_raw_value(&answer).map_err(|_| Error::internal("the answer cannot be written"))
}

/// `true` if the client has said that it answers such requests.
fn can_answer(capabilities: &ClientCapabilities, method: &str) -> bool {
    match method {
        methods::ELICITATION_CREATE => capabilities.elicitation.is_some(),
        methods::SAMPLING_CREATE_MESSAGE => capabilities.sampling.is_some(),
        methods::ROOTS_LIST => capabilities.roots.is_some(),
        _ => true,
    }
}

/// The question, as the client knows it. No task is to be made of its answer: servers were not told that it
/// can be.
fn question(method: &str, params: Option<&RawValue>, names: Option<&Names>) -> Result<Question, Error> {
    let known = [methods::ELICITATION_CREATE, methods::SAMPLING_CREATE_MESSAGE, methods::ROOTS_LIST];
    let method = known.into_iter().find(|known| *known == method);
    let method = method.ok_or_else(|| Error::new(ErrorCode::METHOD_NOT_FOUND, "no such question"))?;
    let told = params.and_then(|params| names?.told(params));
    let params = serde_json::from_str(told.as_deref().or(params).map_or("{}", RawValue::get));
    let mut params: Value = params.map_err(|_| Error::invalid_params("the question is too deep"))?;
    if let Some(params) = params.as_object_mut() {
        params.shift_remove("task");
    }
    Ok(Question { method, params })
}
