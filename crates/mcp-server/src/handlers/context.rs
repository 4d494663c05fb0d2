//! What a handler knows of its request, and what it can say before its answer.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{Error, ErrorCode, write_notification};
use thruway_mcp::params::Params;
use thruway_mcp::schema::{
    ClientCapabilities, CreateMessageRequestParams, CreateMessageResult, ElicitRequestFormParams,
    ElicitRequestURLParams, ElicitResult, Implementation, ListRootsResult, LoggingLevel,
    LoggingMessageNotificationParams, ProgressNotificationParams, RequestId, methods,
};
use thruway_mcp::{Revision, check_finite, modern};
use tokio::sync::mpsc;

use super::HandlerError;
use crate::Identity;
use crate::ask::{BoundRequest, Question, Rounds};
use crate::authorization::Caller;
use crate::dispatch::Said;
use crate::session::Session;
use crate::tasks::Task;

/// A request, while it is being handled. Borrows from the message.
pub struct Call<'a> {
    revision: Revision,
    method: &'a str,
    params: &'a Params<'a>,
    client: ClientSide<'a>,
    caller: &'a Caller,
    /// What the call may become.
    task: Option<&'a Arc<Task>>,
    /// What the handler says before its answer, once it has asked for a context.
    pub(crate) messages: RefCell<Option<(Context, mpsc::Receiver<Said>)>>,
}

/// What is known of the client, in the manner of its era.
#[derive(Clone, Copy)]
pub(crate) enum ClientSide<'a> {
    /// Everything is in the request.
    Modern(&'a Arc<Rounds>),
    /// It was said when the session began.
    Legacy(&'a Arc<Session>),
    /// Nothing is known: there is no session.
    Unknown,
}

impl<'a> Call<'a> {
    pub(crate) const fn new(
        revision: Revision,
        method: &'a str,
        params: &'a Params<'a>,
        client: ClientSide<'a>,
        caller: &'a Caller,
    ) -> Self {
        Self { revision, method, params, client, caller, task: None, messages: RefCell::new(None) }
    }

    /// The same call, which may become `task`.
    pub(crate) const fn of_task<'b>(&'b self, task: &'b Arc<Task>) -> Call<'b> {
        let Self { revision, method, params, client, caller, .. } = *self;
        Call { revision, method, params, client, caller, task: Some(task), messages: RefCell::new(None) }
    }

    pub(crate) const fn caller(&self) -> &'a Caller {
        self.caller
    }

    /// Who calls, if the endpoint asks for tokens.
    pub fn identity(&self) -> Option<&Identity> {
        self.caller.identity().map(|identity| &**identity)
    }

    /// What the answers to questions of the handler will be bound to.
    pub(crate) fn bound(&self) -> BoundRequest {
        BoundRequest::new(self.caller, self.method, self.params)
    }

    /// The revision of the protocol that the request is in.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// The method of the request, such as `tools/call`.
    pub const fn method(&self) -> &str {
        self.method
    }

    /// What is called: the name of the tool or prompt, or the URI of the resource; a completion has none.
    pub fn name(&self) -> Option<&str> {
        match self.method {
            methods::RESOURCES_READ => self.params.uri.as_deref(),
            methods::TOOLS_CALL | methods::PROMPTS_GET => self.params.name.as_deref(),
            _ => None,
        }
    }

    /// The arguments as they were sent: JSON, not checked against anything yet.
    pub fn arguments(&self) -> Option<&str> {
        self.params.arguments.map(RawValue::get)
    }

    /// A member of the request's `_meta` that the protocol does not define.
    pub fn meta(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.params.meta.other(name)?.get()).ok()
    }

    /// What the client says it is. Not verified: nothing may depend on it.
    pub fn client_info(&self) -> Option<Implementation> {
        match self.client {
            ClientSide::Modern(_) => serde_json::from_str(self.params.meta.client_info?.get()).ok(),
            ClientSide::Legacy(session) => session.client_info(),
            ClientSide::Unknown => None,
        }
    }

    /// What the client can do.
    ///
    /// # Errors
    /// It is malformed.
    pub fn client_capabilities(&self) -> Result<ClientCapabilities, Error> {
        match self.client {
            ClientSide::Modern(_) => modern::client_capabilities(&self.params.meta),
            ClientSide::Legacy(session) => Ok(session.client_capabilities()),
            ClientSide::Unknown => Ok(ClientCapabilities::default()),
        }
    }

    /// What an asynchronous handler is given.
    pub(crate) fn context(&self) -> Context {
        if let Some((context, _)) = &*self.messages.borrow() {
            return context.clone();
        }
        let (outbox, messages) = mpsc::channel(MESSAGES_MAX);
        let meta = &self.params.meta;
        let (log_level, asks) = match self.client {
            ClientSide::Modern(rounds) => {
                let level = meta.log_level.as_deref().and_then(|level| level.parse().ok());
                (level, Asks::Modern(rounds.clone()))
            }
            ClientSide::Legacy(session) => (session.log_level(), Asks::Legacy(session.clone())),
            ClientSide::Unknown => (None, Asks::Nobody),
        };
        let context = Context(Arc::new(Inner {
            revision: self.revision,
            identity: self.caller.identity().cloned(),
            client_info: self.client_info(),
            client_capabilities: self.client_capabilities(),
            meta: meta.others.iter().map(|(name, value)| (name.to_string(), value.get().into())).collect(),
            progress_token: meta.progress_token.as_ref().map(thruway_mcp::json_rpc::Id::to_owned),
            progress: Mutex::new(None),
            log_level,
            asks,
            task: self.task.cloned(),
            outbox,
        }));
        *self.messages.borrow_mut() = Some((context.clone(), messages));
        context
    }
}

/// What an asynchronous handler knows of its request, and what it can do while it handles it. Clones are the
/// same.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    revision: Revision,
    identity: Option<Arc<Identity>>,
    client_info: Option<Implementation>,
    client_capabilities: Result<ClientCapabilities, Error>,
    meta: Vec<(String, Box<str>)>,
    progress_token: Option<RequestId>,
    /// What was reported last.
    progress: Mutex<Option<f64>>,
    log_level: Option<LoggingLevel>,
    asks: Asks,
    /// What the request may become, or is.
    task: Option<Arc<Task>>,
    outbox: mpsc::Sender<Said>,
}

enum Asks {
    Modern(Arc<Rounds>),
    Legacy(Arc<Session>),
    Nobody,
}

impl Context {
    /// The revision of the protocol that the request is in.
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// Who calls, if the endpoint asks for tokens.
    pub fn identity(&self) -> Option<&Identity> {
        self.0.identity.as_deref()
    }

    /// A member of the request's `_meta` that the protocol does not define, such as `traceparent`.
    pub fn meta(&self, name: &str) -> Option<Value> {
        let (_, value) = self.0.meta.iter().find(|(member, _)| member == name)?;
        serde_json::from_str(value).ok()
    }

    /// What the client says it is. Not verified: nothing may depend on it.
    pub fn client_info(&self) -> Option<&Implementation> {
        self.0.client_info.as_ref()
    }

    /// What the client can do.
    ///
    /// # Errors
    /// It is malformed.
    pub fn client_capabilities(&self) -> Result<&ClientCapabilities, HandlerError> {
        self.0.client_capabilities.as_ref().map_err(|error| error.clone().into())
    }

    /// Reports the progress of the handler, if the client wants to know. Waits while the client is slow. The
    /// progress of a task becomes its message. A progress that is not finite, or not more than the last, is
    /// not sent; neither is a total that is not finite.
    pub async fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
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
        let total = total.filter(|total| total.is_finite());
        let params = ProgressNotificationParams {
            progress_token: token.clone(),
            progress,
            total,
            message: message.map(str::to_owned),
            meta: None,
        };
        self.notify(methods::NOTIFICATIONS_PROGRESS, &params).await;
    }

    /// `true` if `progress` is a number that JSON can express, and more than the last.
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

    /// Sends a log message, if the client wants such of this level. Tasks have no way to.
    pub async fn log(&self, level: LoggingLevel, logger: Option<&str>, data: impl Serialize) {
        if self.0.log_level.is_none_or(|wanted| level < wanted) || self.task().is_some() {
            return;
        }
        let Ok(data) = serde_json::to_value(data) else { return };
        let params =
            LoggingMessageNotificationParams { level, logger: logger.map(str::to_owned), data, meta: None };
        self.notify(methods::NOTIFICATIONS_MESSAGE, &params).await;
    }

    /// Closes the connection that the client waits at, if the client will come back for the rest: after
    /// `retry`, a hint that is told in whole milliseconds. So a handler that takes minutes needs no
    /// connection that is open for as long. Only clients of revision 2025-11-25 over HTTP do so (SEP-1699);
    /// for all others, nothing happens. What is said and answered meanwhile is kept for them.
    pub async fn disconnect(&self, retry: Duration) {
        if matches!(self.0.asks, Asks::Legacy(_)) && self.0.revision.primes_event_streams() {
            // If nobody listens any more, the handler is about to be dropped.
            let _ = self.0.outbox.send(Said::Disconnect(retry)).await;
        }
    }

    /// Makes the call a task from here on, if the tool is one of those whose handlers [say
    /// when](crate::TaskSupport::begun_by_handler) and the client knows of tasks; otherwise, nothing happens.
    /// What was asked before has been asked in rounds, before there was a task.
    ///
    /// # Cancel safety
    /// The call may become a task all the same.
    pub async fn begin_task(&self) {
        if let Some(task) = &self.0.task {
            task.wait_to_begin().await;
        }
    }

    /// The task that the request has become.
    fn task(&self) -> Option<&Task> {
        self.0.task.as_deref().filter(|task| task.has_begun())
    }

    /// Whether nobody waits for the answer any more; of a task, whether it is over.
    pub fn is_cancelled(&self) -> bool {
        self.task().map_or_else(|| self.0.outbox.is_closed(), Task::is_over)
    }

    /// Ready when nobody waits for the answer any more. The handler itself is dropped then; this is for what
    /// it has started elsewhere.
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

    /// Asks the user to fill in a form. `key` tells the questions of one request apart, and must be the same
    /// each time the handler runs.
    ///
    /// # Errors
    /// The client cannot do that, or answers with an error.
    pub async fn elicit(
        &self,
        key: &str,
        form: ElicitRequestFormParams,
    ) -> Result<ElicitResult, HandlerError> {
        let required = || ClientCapabilities::default().with_elicitation();
        self.require(ClientCapabilities::has_form_elicitation, required)?;
        self.ask(key, methods::ELICITATION_CREATE, &form).await
    }

    /// Asks the user to visit a page, for what must not pass through the client. As [`elicit`](Self::elicit)
    /// otherwise.
    ///
    /// # Errors
    /// As [`elicit`](Self::elicit).
    pub async fn elicit_url(
        &self,
        key: &str,
        page: ElicitRequestURLParams,
    ) -> Result<ElicitResult, HandlerError> {
        let required = || ClientCapabilities::default().with_url_elicitation();
        self.require(ClientCapabilities::has_url_elicitation, required)?;
        self.ask(key, methods::ELICITATION_CREATE, &page).await
    }

    /// Asks the client's model. As [`elicit`](Self::elicit) otherwise.
    ///
    /// # Errors
    /// As [`elicit`](Self::elicit).
    pub async fn sample(
        &self,
        key: &str,
        request: CreateMessageRequestParams,
    ) -> Result<CreateMessageResult, HandlerError> {
        let required = || ClientCapabilities::default().with_sampling();
        self.require(|capabilities| capabilities.sampling.is_some(), required)?;
        self.ask(key, methods::SAMPLING_CREATE_MESSAGE, &request).await
    }

    /// Asks which directories the client works in. As [`elicit`](Self::elicit) otherwise.
    ///
    /// # Errors
    /// As [`elicit`](Self::elicit).
    pub async fn list_roots(&self, key: &str) -> Result<ListRootsResult, HandlerError> {
        let required = || ClientCapabilities::default().with_roots();
        self.require(|capabilities| capabilities.roots.is_some(), required)?;
        self.ask(key, methods::ROOTS_LIST, &Value::Object(serde_json::Map::new())).await
    }

    fn require(
        &self,
        has: impl FnOnce(&ClientCapabilities) -> bool,
        required: impl FnOnce() -> ClientCapabilities,
    ) -> Result<(), HandlerError> {
        if has(self.client_capabilities()?) {
            return Ok(());
        }
        Err(HandlerError::Protocol(match self.0.asks {
            Asks::Modern(_) => modern::missing_capability(&required()),
            Asks::Legacy(_) | Asks::Nobody => {
                Error::new(ErrorCode::INVALID_REQUEST, "the client lacks a capability that is needed")
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
            Error::internal(format!("the server cannot write `{method}` as JSON: {error}"))
        })?;
        let params = serde_json::to_value(params)
            .map_err(|_| Error::internal("a question cannot be written as JSON"))?;
        let question = Question { method, params };
        let malformed = || Error::internal("the client's answer is malformed");
        if let Some(task) = self.task() {
            return Ok(R::deserialize(task.ask(key, question).await?).map_err(|_| malformed())?);
        }
        match &self.0.asks {
            Asks::Modern(rounds) => tokio::select! {
                biased;
                answer = poll_fn(|_| rounds.poll_answer(key, &question)) => Ok(answer),
                // The handler has been dropped by then; a task that it has started would wait for ever.
                () = self.0.outbox.closed() => Err(Error::internal("the request has ended").into()),
            },
            Asks::Nobody => Err(Error::internal("there is no session in which to ask").into()),
            Asks::Legacy(session) => {
                let answer = session.pending.ask(&question, &self.0.outbox).await?;
                Ok(R::deserialize(answer).map_err(|_| malformed())?)
            }
        }
    }

    async fn notify(&self, method: &str, params: &impl Serialize) {
        let mut message = Vec::new();
        write_notification(&mut message, method, params);
        // If nobody listens any more, the handler is about to be dropped.
        let _ = self.0.outbox.send(Said::Message(message)).await;
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("revision", &self.0.revision).finish_non_exhaustive()
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// How many messages of one request wait for its client before its handler does.
const MESSAGES_MAX: usize = 16;
