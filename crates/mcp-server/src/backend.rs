//! The interface between a server and its backend.
//!
//! The server reads messages, checks headers, stores sessions and subscriptions, limits the size of requests
//! and sends answers. The [`Backend`] produces the answers. The default backend calls the handlers of this
//! process. A gateway implements its own backend, and creates its server with
//! [`McpServer::with_backend`](crate::McpServer::with_backend).

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thruway_mcp::Revision;
use thruway_mcp::json_rpc::{Error, Request};
use thruway_mcp::params::Params;
use thruway_mcp::schema::{ServerCapabilities, SubscriptionFilter, TaskSubscriptionNotifications};
use thruway_message::FieldLines;

pub use crate::ask::{BoundRequest, PendingRequests, Question, RequestBinding, State, StateKey};
pub use crate::authorization::{Caller, CallerAddress};
pub use crate::dispatch::{Exchange, InterimMessage, Reply, Status, require_tasks};

pub use crate::server::{Change, ChangeKey, ServerCore, SharedChanges, Subscription};
pub use crate::session::{BackendSession, DroppedMessages, LogInbox, OutOfBandMessages, Session};
pub use crate::shares::{Holder, LimitReached, Share, Shares, check_share};
pub use crate::streamable_http::json_message;

/// Answers the requests of all clients of one server, in both eras of the protocol.
///
/// The server itself answers `initialize`, `server/discover` and `subscriptions/listen`, with data from the
/// backend. The backend gets all other requests with [`handle_legacy`](Self::handle_legacy) and
/// [`handle_modern`](Self::handle_modern).
///
/// ```
/// use std::sync::Arc;
///
/// use thruway_mcp::Revision;
/// use thruway_mcp::json_rpc::Error;
/// use thruway_mcp::params::Params;
/// use thruway_mcp::schema::{Implementation, ServerCapabilities};
/// use thruway_mcp_server::backend::{
///     Accepted, Backend, LegacyRequest, Listening, ModernRequest, Reply, ServerCore, WantedNotifications,
/// };
/// use thruway_mcp_server::{McpServer, McpServerOptions};
/// use thruway_message::FieldLines;
///
/// /// A backend without tools, resources and prompts.
/// #[derive(Debug)]
/// struct Nothing;
///
/// impl Backend for Nothing {
///     fn capabilities(&self, _: &ServerCore, _: Revision) -> ServerCapabilities {
///         ServerCapabilities::default()
///     }
///
///     fn check_legacy_param_headers(&self, _: FieldLines<'_>, _: &Params<'_>) -> Result<(), Error> {
///         Ok(())
///     }
///
///     fn handle_legacy(&self, _: &LegacyRequest<'_>, _: &mut Vec<u8>) -> Option<Reply> {
///         None
///     }
///
///     fn handle_modern(&self, _: &ModernRequest<'_>, _: &mut Vec<u8>) -> Option<Reply> {
///         None
///     }
///
///     fn listen(&self, _: &ModernRequest<'_>, wanted: WantedNotifications) -> Result<Listening, Error> {
///         Ok(Listening::Now(Accepted { wanted, ..Accepted::default() }))
///     }
/// }
///
/// let info = Implementation::new("nothing", "1.0.0");
/// let server = McpServer::with_backend(info, McpServerOptions::default(), Arc::new(Nothing));
/// ```
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// Returns the capabilities of the server for clients that use `revision`.
    fn capabilities(&self, core: &ServerCore, revision: Revision) -> ServerCapabilities;

    /// Begins a session of the legacy era. The server sends the returned capabilities in the answer to
    /// `initialize`.
    fn begin_session(&self, core: &ServerCore, revision: Revision) -> NewSession {
        NewSession { capabilities: self.capabilities(core, revision), state: None }
    }

    /// Compares the headers `Mcp-Param-*` of a legacy tool call with the arguments of the call.
    ///
    /// # Errors
    /// Returns an error if a header and the corresponding argument differ.
    fn check_legacy_param_headers(&self, headers: FieldLines<'_>, params: &Params<'_>) -> Result<(), Error>;

    /// Answers a request of the legacy era.
    ///
    /// If this method returns `None`, the server handles the request itself: it answers `ping` and
    /// `logging/setLevel`, and rejects any other method with an error.
    ///
    /// The server checks the limit on the total size of requests after this method returns. If the limit is
    /// reached, the server answers with an error, and drops the [`Exchange`] of [`Reply::Later`] before the
    /// first poll. So the backend must start its work in the future of the exchange, not in this method.
    fn handle_legacy(&self, request: &LegacyRequest<'_>, output: &mut Vec<u8>) -> Option<Reply>;

    /// Answers a request of the modern era. Returns `None` if the backend does not know the method.
    ///
    /// The backend must check the headers `Mcp-Param-*`. The backend must also call
    /// [`ServerCore::hold_bytes_of`], and keep the result until its work on the request ends. This call
    /// enforces the limit on the total size of requests. The server does not make this call, because a
    /// backend may continue its work after the answer.
    fn handle_modern(&self, request: &ModernRequest<'_>, output: &mut Vec<u8>) -> Option<Reply>;

    /// Starts a subscription to the notifications in `wanted`.
    ///
    /// # Errors
    /// Returns an error if the parameters of the request are invalid for this backend.
    fn listen(&self, request: &ModernRequest<'_>, wanted: WantedNotifications) -> Result<Listening, Error>;

    /// Returns `true` if the backend needs the parameters of tool calls as JSON text. Otherwise, the server
    /// may parse the parameters without keeping their text, which is faster. Default: `false`.
    fn needs_params_text(&self) -> bool {
        false
    }

    /// Called before the server notifies its clients about `changes` of another replica. A backend must drop its copies
    /// of the changed lists here. Default: does nothing.
    fn note_shared_changes(&self, _changes: &SharedChanges) {}

    /// Returns `true` if replicas share changes of resources. If messages between the replicas are lost, clients then
    /// get a notification about each resource that they have subscribed to. Default: `true`.
    fn may_share_resources(&self) -> bool {
        true
    }
}

/// A request of the legacy era, with its context.
#[derive(Clone, Copy)]
pub struct LegacyRequest<'a> {
    /// The server that received the request.
    pub core: &'a Arc<ServerCore>,
    /// The session of the client, if the client has a session.
    pub session: Option<&'a Arc<Session>>,
    /// The protocol revision that the client uses.
    pub revision: Revision,
    /// The request message.
    pub request: &'a Request<'a>,
    /// The parameters of the request.
    pub params: &'a Params<'a>,
    /// The sender of the request.
    pub caller: &'a Caller,
}

/// A request of the modern era, with its context.
#[derive(Clone, Copy)]
pub struct ModernRequest<'a> {
    /// The server that received the request.
    pub core: &'a Arc<ServerCore>,
    /// The protocol revision that the request names.
    pub revision: Revision,
    /// The request message.
    pub request: &'a Request<'a>,
    /// The parameters of the request.
    pub params: &'a Params<'a>,
    /// The headers of the HTTP request. `None` if the transport is not Streamable HTTP.
    pub headers: Option<FieldLines<'a>>,
    /// The sender of the request.
    pub caller: &'a Caller,
}

/// The values that a backend provides for a new session.
#[derive(Debug)]
pub struct NewSession {
    /// The capabilities in the answer to `initialize`.
    pub capabilities: ServerCapabilities,
    /// State that the backend stores in the session, if any. A backend that stores state can also send
    /// messages that do not belong to a request of the client.
    pub state: Option<Box<dyn BackendSession>>,
}

/// The notifications that a client subscribes to (parameters of `subscriptions/listen`).
#[derive(Clone, Default, Deserialize, Serialize)]
pub struct WantedNotifications {
    /// Notifications about changes of lists and resources.
    #[serde(flatten)]
    pub filter: SubscriptionFilter,
    /// Notifications about changes of tasks.
    #[serde(flatten)]
    pub tasks: TaskSubscriptionNotifications,
}

/// The outcome of a request for a subscription.
pub enum Listening {
    /// The backend has started the subscription.
    Now(Accepted),
    /// The future starts the subscription. If the future returns an error, the server sends the error as
    /// the answer to the request.
    Later(Pin<Box<dyn Future<Output = Result<Accepted, Error>> + Send>>),
}

/// The notifications that the backend accepts in a subscription, with their sources.
#[derive(Default)]
pub struct Accepted {
    /// The notifications that the client will get. The first message of the subscription lists these
    /// notifications for the client.
    pub wanted: WantedNotifications,
    /// URIs of the requested resources for which the backend refuses notifications.
    pub refused_uris: Vec<String>,
    /// The queue of log messages that do not belong to a request.
    pub logs: Option<Arc<LogInbox>>,
    /// Any value that the server must keep until the subscription ends.
    pub kept: Option<Box<dyn Any + Send + Sync>>,
    /// A subscription to changes of this server's tasks.
    pub tasks: Option<Subscription<Arc<str>>>,
}
