//! The request that a handler answers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{Error, Id};
use thruway_mcp::params::Params;
use thruway_mcp::schema::{ClientCapabilities, Implementation, methods};
use thruway_mcp::{Revision, modern};
use tokio::sync::mpsc;

use super::context::{ClientRequests, Inner, MESSAGES_MAX, no_session};
use super::{Context, HandlerError};
use crate::Identity;
use crate::ask::{BoundRequest, Rounds};
use crate::authorization::Caller;
use crate::dispatch::InterimMessage;
use crate::session::{ClientSession, Session};
use crate::tasks::Task;

/// A request in progress. This value borrows from the received message.
pub struct Call<'a> {
    revision: Revision,
    method: &'a str,
    pub(super) params: &'a Params<'a>,
    pub(super) client: ClientSide<'a>,
    caller: &'a Caller,
    /// The task that the call may become. `None` if the call cannot become a task.
    pub(super) task: Option<&'a Arc<Task>>,
    /// The context of the handler, and the receiver of the handler's messages. `None` until the first call
    /// of the method `context`.
    pub(crate) messages: RefCell<Option<(Context, mpsc::Receiver<InterimMessage>)>>,
}

/// The source of the information about the client, which depends on the era.
#[derive(Clone, Copy)]
pub(crate) enum ClientSide<'a> {
    /// Modern era: each request contains all information about the client.
    Modern(&'a Arc<Rounds>),
    /// Legacy era: the client sent the information with `initialize`.
    Legacy(&'a Arc<Session>),
    /// Legacy era without a session: the server has no information about the client.
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

    /// Returns a copy of this call that may become the task `task`.
    pub(crate) const fn of_task<'b>(&'b self, task: &'b Arc<Task>) -> Call<'b> {
        let Self { revision, method, params, client, caller, .. } = *self;
        Call { revision, method, params, client, caller, task: Some(task), messages: RefCell::new(None) }
    }

    pub(crate) const fn caller(&self) -> &'a Caller {
        self.caller
    }

    /// Returns the identity of the caller, if the endpoint requires tokens.
    pub fn identity(&self) -> Option<&Identity> {
        self.caller.identity().map(|identity| &**identity)
    }

    /// Returns the parts of the request to which the server binds the client's answers.
    pub(crate) fn bound(&self) -> BoundRequest {
        BoundRequest::new(self.caller, self.method, self.params)
    }

    /// Returns the protocol revision of the request.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the method of the request, such as `tools/call`.
    pub const fn method(&self) -> &str {
        self.method
    }

    /// Returns the name of the tool or prompt, or the URI of the resource. Returns `None` for a completion.
    pub fn name(&self) -> Option<&str> {
        match self.method {
            methods::RESOURCES_READ => self.params.uri.as_deref(),
            methods::TOOLS_CALL | methods::PROMPTS_GET => self.params.name.as_deref(),
            _ => None,
        }
    }

    /// Returns the JSON text of the arguments, exactly as the client sent it. The server has not checked this
    /// text against the schema.
    pub fn arguments(&self) -> Option<&str> {
        self.params.arguments.map(RawValue::get)
    }

    /// Returns the member `name` of the request's `_meta`. Returns `None` if `name` is a member that the
    /// protocol defines.
    pub fn meta(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.params.meta.other(name)?.get()).ok()
    }

    /// Returns the client's name and version. A client can send any name and version, so do not use these
    /// values for security decisions.
    pub fn client_info(&self) -> Option<Implementation> {
        match self.client {
            ClientSide::Modern(_) => serde_json::from_str(self.params.meta.client_info?.get()).ok(),
            ClientSide::Legacy(session) => session.client_info(),
            ClientSide::Unknown => None,
        }
    }

    /// Returns the client's capabilities.
    ///
    /// # Errors
    /// Returns an error if the client sent malformed capabilities.
    pub fn client_capabilities(&self) -> Result<ClientCapabilities, Error> {
        match self.client {
            ClientSide::Modern(_) => modern::client_capabilities(&self.params.meta),
            ClientSide::Legacy(session) => Ok(session.client_capabilities()),
            ClientSide::Unknown => Ok(ClientCapabilities::default()),
        }
    }

    /// Returns the session of the client, for state that belongs to one client.
    ///
    /// # Errors
    /// Returns an error if the request has no session. Requests of MCP revision 2026-07-28 never have one.
    pub fn session(&self) -> Result<ClientSession, HandlerError> {
        match self.client {
            ClientSide::Legacy(session) => Ok(ClientSession::new(session.clone())),
            ClientSide::Modern(_) | ClientSide::Unknown => Err(no_session(self.revision)),
        }
    }

    /// Returns the context for an asynchronous handler. All calls of this method return clones of the same
    /// context.
    pub(crate) fn context(&self) -> Context {
        if let Some((context, _)) = &*self.messages.borrow() {
            return context.clone();
        }
        let (context, messages) = self.new_context();
        *self.messages.borrow_mut() = Some((context.clone(), messages));
        context
    }

    /// Creates the context of this call, and the receiver of the handler's messages.
    fn new_context(&self) -> (Context, mpsc::Receiver<InterimMessage>) {
        let (outbox, messages) = mpsc::channel(MESSAGES_MAX);
        let meta = &self.params.meta;
        let (log_level, client_requests) = match self.client {
            ClientSide::Modern(rounds) => {
                let level = meta.log_level.as_deref().and_then(|level| level.parse().ok());
                (level, ClientRequests::Modern(rounds.clone()))
            }
            ClientSide::Legacy(session) => (session.log_level(), ClientRequests::Legacy(session.clone())),
            ClientSide::Unknown => (None, ClientRequests::Unavailable),
        };
        let context = Context(Arc::new(Inner {
            revision: self.revision,
            identity: self.caller.identity().cloned(),
            client_info: self.client_info(),
            client_capabilities: self.client_capabilities(),
            meta: meta.others.iter().map(|(name, value)| (name.to_string(), value.get().into())).collect(),
            progress_token: meta.progress_token.as_ref().map(Id::to_owned),
            progress: Mutex::new(None),
            forms: Mutex::new(BTreeMap::new()),
            log_level,
            client_requests,
            task: self.task.cloned(),
            outbox,
        }));
        (context, messages)
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("revision", &self.revision).finish_non_exhaustive()
    }
}
