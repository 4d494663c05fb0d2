//! Lets an `async` handler read information about its request, and send messages before the answer.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};
use thruway_mcp::json_rpc::{Error, ErrorCode, write_notification};
use thruway_mcp::schema::{
    ClientCapabilities, CreateMessageRequestParams, CreateMessageResult, ElicitRequestFormParams,
    ElicitRequestURLParams, ElicitResult, Implementation, ListRootsResult, LoggingLevel,
    LoggingMessageNotificationParams, ProgressNotificationParams, RequestId, methods,
};
use thruway_mcp::{Era, Revision, check_finite, modern};
use tokio::sync::mpsc;

use super::form::TypedForm;
use super::{ElicitForm, Elicited, HandlerError};
use crate::Identity;
use crate::ask::{Question, Rounds};
use crate::dispatch::InterimMessage;
use crate::session::{ClientSession, Session};
use crate::tasks::Task;

/// Gives an asynchronous handler information about its request. Before the answer, the handler can also
/// report progress, log, and ask the client questions. Clones refer to the same request.
///
/// ```
/// use thruway_mcp_server::schema::{ElicitAction, ElicitRequestFormParams, PrimitiveSchemaDefinition, Tool};
/// use thruway_mcp_server::{Context, HandlerError, McpServer};
///
/// async fn greet(context: Context) -> Result<String, HandlerError> {
///     let form = ElicitRequestFormParams::new("What is your name?")
///         .with_required_field("name", PrimitiveSchemaDefinition::string());
///     let answer = context.elicit_form("name", form).await?;
///     match answer.action {
///         ElicitAction::Accept => Ok(format!("Hello, {}!", answer.text("name"))),
///         _ => Err(HandlerError::failed("the user did not give a name")),
///     }
/// }
///
/// let server = McpServer::new("greeter", "1.0.0").tool(Tool::new("greet"), greet);
/// ```
#[derive(Clone)]
pub struct Context(pub(super) Arc<Inner>);

/// The data of a [`Context`]. [`Call::context`](super::Call::context) creates it.
pub(super) struct Inner {
    pub(super) revision: Revision,
    pub(super) identity: Option<Arc<Identity>>,
    pub(super) client_info: Option<Implementation>,
    pub(super) client_capabilities: Result<ClientCapabilities, Error>,
    pub(super) meta: Vec<(String, Box<str>)>,
    pub(super) progress_token: Option<RequestId>,
    /// The last progress that the handler reported.
    pub(super) progress: Mutex<Option<f64>>,
    /// The number of forms with the same type and message that the handler has shown.
    pub(super) forms: Mutex<BTreeMap<String, u32>>,
    pub(super) log_level: Option<LoggingLevel>,
    pub(super) client_requests: ClientRequests,
    /// The task that the request may become, or has become.
    pub(super) task: Option<Arc<Task>>,
    pub(super) outbox: mpsc::Sender<InterimMessage>,
}

/// The way in which a handler sends requests to the client.
pub(super) enum ClientRequests {
    Modern(Arc<Rounds>),
    Legacy(Arc<Session>),
    Unavailable,
}

impl Context {
    /// Returns the protocol revision of the request.
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// Returns the identity of the caller, if the endpoint requires tokens.
    pub fn identity(&self) -> Option<&Identity> {
        self.0.identity.as_deref()
    }

    /// Returns the member `name` (for example `traceparent`) of the request's `_meta`. Returns `None` if
    /// `name` is a member that the protocol defines.
    pub fn meta(&self, name: &str) -> Option<Value> {
        let (_, value) = self.0.meta.iter().find(|(member, _)| member == name)?;
        serde_json::from_str(value).ok()
    }

    /// Returns the client's name and version. A client can send any name and version, so do not use these
    /// values for security decisions.
    pub fn client_info(&self) -> Option<&Implementation> {
        self.0.client_info.as_ref()
    }

    /// Returns the client's capabilities.
    ///
    /// # Errors
    /// Returns an error if the client sent malformed capabilities.
    pub fn client_capabilities(&self) -> Result<&ClientCapabilities, HandlerError> {
        self.0.client_capabilities.as_ref().map_err(|error| error.clone().into())
    }

    /// Returns the session of the client, for state that belongs to one client.
    ///
    /// # Errors
    /// Returns an error if the request has no session. Requests of MCP revision 2026-07-28 never have one.
    pub fn session(&self) -> Result<ClientSession, HandlerError> {
        match &self.0.client_requests {
            ClientRequests::Legacy(session) => Ok(ClientSession::new(session.clone())),
            ClientRequests::Modern(_) | ClientRequests::Unavailable => Err(no_session(self.0.revision)),
        }
    }

    /// Reports the progress of the handler to the client, if the client requested progress reports. Waits
    /// if the message queue of the request is full because the client reads slowly.
    ///
    /// In a task, the report becomes the message of the task. The server ignores a report if `progress` is
    /// not finite, or if `progress` is not greater than in the previous report. The server omits a `total`
    /// that is not finite.
    pub async fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let total = total.filter(|total| total.is_finite());
        if let Some(task) = self.task() {
            if self.is_further(progress) {
                task.report(progress, total, message);
            }
            return;
        }
        let Some(token) = &self.0.progress_token else { return };
        if !self.is_further(progress) {
            return;
        }
        let params = ProgressNotificationParams {
            progress_token: token.clone(),
            progress,
            total,
            message: message.map(str::to_owned),
            meta: None,
        };
        self.notify(methods::NOTIFICATIONS_PROGRESS, &params).await;
    }

    /// Returns `true` if `progress` is finite and greater than the previous progress.
    fn is_further(&self, progress: f64) -> bool {
        if !progress.is_finite() {
            return false;
        }
        let mut last = self.0.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| progress <= last) {
            return false;
        }
        *last = Some(progress);
        true
    }

    /// Sends a log message, if the client wants messages of this level. Does nothing in a task.
    pub async fn log(&self, level: LoggingLevel, logger: Option<&str>, data: impl Serialize) {
        if self.0.log_level.is_none_or(|wanted| level < wanted) || self.task().is_some() {
            return;
        }
        let Ok(data) = serde_json::to_value(data) else { return };
        let params =
            LoggingMessageNotificationParams { level, logger: logger.map(str::to_owned), data, meta: None };
        self.notify(methods::NOTIFICATIONS_MESSAGE, &params).await;
    }

    /// Ends the client's event stream. A handler that takes minutes can call this method, so that no
    /// connection stays open in the meantime. The server asks the client to reconnect after the time `retry`,
    /// which is rounded to whole milliseconds. Until then, the server stores all messages and the answer.
    ///
    /// This method affects only clients of MCP revision 2025-11-25 over Streamable HTTP (SEP-1699).
    pub async fn disconnect(&self, retry: Duration) {
        if matches!(self.0.client_requests, ClientRequests::Legacy(_))
            && self.0.revision.primes_event_streams()
        {
            // Sending fails only if the client has disconnected. The server then drops the handler.
            let _ = self.0.outbox.send(InterimMessage::Disconnect(retry)).await;
        }
    }

    /// Turns the call into a task. This method has an effect only if the tool [lets its handler
    /// decide](crate::TaskSupport::begun_by_handler) and the client supports tasks. Before this method, the
    /// handler can ask questions in rounds, like the handler of any other call.
    ///
    /// # Cancel safety
    /// The call may become a task even if this future is dropped.
    pub async fn begin_task(&self) {
        if let Some(task) = &self.0.task {
            task.wait_to_begin().await;
        }
    }

    /// Returns the task, if the request has become a task.
    fn task(&self) -> Option<&Task> {
        self.0.task.as_deref().filter(|task| task.has_begun())
    }

    /// Returns `true` if the client no longer waits for the answer. In a task, returns `true` if the task has
    /// ended.
    pub fn is_cancelled(&self) -> bool {
        self.task().map_or_else(|| self.0.outbox.is_closed(), Task::is_over)
    }

    /// Completes when the client no longer waits for the answer. The server then drops the handler, so this
    /// method is only useful in tokio tasks that the handler has spawned.
    pub async fn cancelled(&self) {
        match &self.0.task {
            None => self.0.outbox.closed().await,
            Some(task) => {
                tokio::select! {
                    () = task.over() => return,
                    () = self.0.outbox.closed() => {}
                }
                if task.has_begun() {
                    task.over().await;
                }
            }
        }
    }

    /// Asks the user to fill in a form with the fields of `T`. The server validates the values with the
    /// schema of `T`.
    ///
    /// ```
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    /// use thruway_mcp_server::{Context, ElicitForm, Elicited, HandlerError, tool};
    ///
    /// #[derive(Deserialize, JsonSchema, ElicitForm)]
    /// struct Stay {
    ///     #[schemars(range(min = 1, max = 30))]
    ///     nights: u8,
    ///     is_smoker: Option<bool>,
    /// }
    ///
    /// /// Books a hotel.
    /// #[tool]
    /// async fn book(city: String, context: Context) -> Result<String, HandlerError> {
    ///     match context.elicit::<Stay>(format!("How long do you stay in {city}?")).await? {
    ///         Elicited::Accepted(stay) => Ok(format!("booked {} nights in {city}", stay.nights)),
    ///         Elicited::Declined | Elicited::Cancelled => Ok("nothing was booked".to_owned()),
    ///     }
    /// }
    /// ```
    ///
    /// In MCP revision 2026-07-28, the handler runs again from the start after the answer. The type `T` and
    /// the message identify the question, so the handler must write the same message in every run. If the
    /// message is another one, the user gets a new question. Use [`elicit_form`](Self::elicit_form) to choose
    /// the key of the question.
    ///
    /// # Errors
    /// Returns an error if the client does not support forms, if the client answers with an error, if the
    /// values do not match the schema, or if the schema of `T` is too complex for a form.
    pub async fn elicit<T: ElicitForm>(
        &self,
        message: impl Into<String> + Send,
    ) -> Result<Elicited<T>, HandlerError> {
        let message = message.into();
        let key = self.form_key(&T::schema_name(), &message);
        let form = TypedForm::of::<T>(message, self.0.revision)
            .map_err(|error| HandlerError::failed(error.to_string()))?;
        let answer = self.elicit_form(&key, form.params.clone()).await?;
        form.read(answer)
    }

    /// Returns the key of a form. The key is the same in every run of the handler, and differs from the keys
    /// of earlier forms in this run.
    fn form_key(&self, form: &str, message: &str) -> String {
        let digest = Sha256::digest(message);
        let digest = u64::from_be_bytes(digest[..8].try_into().unwrap_or_default());
        let key = format!("{form}-{digest:016x}");
        let mut asked = self.0.forms.lock().unwrap_or_else(PoisonError::into_inner);
        let count = asked.entry(key.clone()).and_modify(|count| *count += 1).or_insert(1_u32);
        if *count == 1 { key } else { format!("{key}-{count}") }
    }

    /// Asks the user to fill in a form. `key` identifies the question within the request. The handler must
    /// use the same key for this question in every run. [`elicit`](Self::elicit) derives the form from a
    /// type.
    ///
    /// # Errors
    /// Returns an error if the client does not support forms, or if the client answers with an error.
    pub async fn elicit_form(
        &self,
        key: &str,
        form: ElicitRequestFormParams,
    ) -> Result<ElicitResult, HandlerError> {
        let required = || ClientCapabilities::default().with_elicitation();
        self.require("forms (elicitation)", ClientCapabilities::has_form_elicitation, required)?;
        self.ask(key, methods::ELICITATION_CREATE, &form).await
    }

    /// Asks the user to visit a web page. Use this method for data that must not pass through the client.
    /// `key` has the same meaning as for [`elicit_form`](Self::elicit_form).
    ///
    /// # Errors
    /// Returns an error if the client cannot open web pages, or if the client answers with an error.
    pub async fn elicit_url(
        &self,
        key: &str,
        page: ElicitRequestURLParams,
    ) -> Result<ElicitResult, HandlerError> {
        let required = || ClientCapabilities::default().with_url_elicitation();
        self.require("web pages (elicitation by URL)", ClientCapabilities::has_url_elicitation, required)?;
        self.ask(key, methods::ELICITATION_CREATE, &page).await
    }

    /// Sends a request to the client's language model. `key` has the same meaning as for
    /// [`elicit_form`](Self::elicit_form).
    ///
    /// # Errors
    /// Returns an error if the client does not support sampling, or if the client answers with an error.
    pub async fn sample(
        &self,
        key: &str,
        request: CreateMessageRequestParams,
    ) -> Result<CreateMessageResult, HandlerError> {
        let required = || ClientCapabilities::default().with_sampling();
        self.require("sampling", |capabilities| capabilities.sampling.is_some(), required)?;
        self.ask(key, methods::SAMPLING_CREATE_MESSAGE, &request).await
    }

    /// Asks the client for its working directories (roots). `key` has the same meaning as for
    /// [`elicit_form`](Self::elicit_form).
    ///
    /// # Errors
    /// Returns an error if the client does not support roots, or if the client answers with an error.
    pub async fn list_roots(&self, key: &str) -> Result<ListRootsResult, HandlerError> {
        let required = || ClientCapabilities::default().with_roots();
        self.require("roots", |capabilities| capabilities.roots.is_some(), required)?;
        self.ask(key, methods::ROOTS_LIST, &Value::Object(serde_json::Map::new())).await
    }

    /// Checks that the client supports `feature`.
    fn require(
        &self,
        feature: &str,
        has: impl FnOnce(&ClientCapabilities) -> bool,
        required: impl FnOnce() -> ClientCapabilities,
    ) -> Result<(), HandlerError> {
        if has(self.client_capabilities()?) {
            return Ok(());
        }
        Err(HandlerError::Protocol(match self.0.client_requests {
            ClientRequests::Modern(_) => modern::missing_capability(&required()),
            ClientRequests::Legacy(_) | ClientRequests::Unavailable => {
                let reason = format!("the client lacks a required capability: {feature}");
                Error::new(ErrorCode::INVALID_REQUEST, reason)
            }
        }))
    }

    async fn ask<R: DeserializeOwned>(
        &self,
        key: &str,
        method: &'static str,
        params: &impl Serialize,
    ) -> Result<R, HandlerError> {
        check_finite(params).map_err(|error| {
            Error::internal(format!("the server cannot write the parameters of `{method}` as JSON: {error}"))
        })?;
        let params = serde_json::to_value(params)
            .map_err(|_| Error::internal("cannot write the request to the client as JSON"))?;
        let question = Question { method, params };
        let malformed = || Error::internal("the client's answer is malformed");
        if let Some(task) = self.task() {
            return Ok(R::deserialize(task.ask(key, question).await?).map_err(|_| malformed())?);
        }
        match &self.0.client_requests {
            ClientRequests::Modern(rounds) => tokio::select! {
                biased;
                answer = poll_fn(|_| rounds.poll_answer(key, &question)) => Ok(answer),
                // The queue closes when the server drops the handler. Without this branch, a tokio task
                // that the handler spawned would wait forever.
                () = self.0.outbox.closed() => Err(Error::internal("the request has ended").into()),
            },
            ClientRequests::Unavailable => {
                Err(Error::internal("cannot ask the client: the request has no session").into())
            }
            ClientRequests::Legacy(session) => {
                let answer = session.pending.ask(&question, &self.0.outbox).await?;
                Ok(R::deserialize(answer).map_err(|_| malformed())?)
            }
        }
    }

    async fn notify(&self, method: &str, params: &impl Serialize) {
        let mut message = Vec::new();
        write_notification(&mut message, method, params);
        // Sending fails only if the client has disconnected. The server then drops the handler.
        let _ = self.0.outbox.send(InterimMessage::Message(message)).await;
    }
}

/// Returns the error for a request without a session.
pub(super) fn no_session(revision: Revision) -> HandlerError {
    let reason = if revision.era() == Era::Modern {
        format!("the operation needs a session, but requests of MCP revision {revision} have no sessions")
    } else {
        "the operation needs a session, but the request has none".to_owned()
    };
    HandlerError::failed(reason)
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("revision", &self.0.revision).finish_non_exhaustive()
    }
}

/// Maximum number of messages of one request that wait for the client. If the queue is full, the handler
/// waits.
pub(super) const MESSAGES_MAX: usize = 16;
