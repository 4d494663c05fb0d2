//! The interface between the core of a server and the code that answers its requests.
//!
//! The core reads messages, checks headers, keeps sessions and subscriptions, counts the bytes of requests
//! and sends answers. It gets each answer from one [`Backend`]. The handlers of this process are the default
//! backend. A gateway provides its own, and creates its server with
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
pub use crate::authorization::Caller;
pub use crate::dispatch::{Exchange, InterimMessage, Reply, Status, require_tasks};

pub use crate::server::{Change, ChangeKey, ServerCore, Subscription};
pub use crate::session::{BackendSession, DroppedMessages, LogInbox, OutOfBandMessages, Session};
pub use crate::shares::{Holder, LimitReached, Share, Shares, check_share};

/// Answers the requests of the clients of one server, in both eras.
///
/// The core answers `initialize`, `server/discover` and `subscriptions/listen` with the values that the
/// backend returns. All other requests go to [`handle_legacy`](Self::handle_legacy) and
/// [`handle_modern`](Self::handle_modern). The core answers `ping` of the legacy era if the backend does not.
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
/// /// A backend that offers nothing.
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

    /// Begins a session of the legacy era. The capabilities are part of the answer to `initialize`.
    fn begin_session(&self, core: &ServerCore, revision: Revision) -> NewSession {
        NewSession { capabilities: self.capabilities(core, revision), state: None }
    }

    /// Checks the headers `Mcp-Param-*` of a tool call of the legacy era against its arguments.
    ///
    /// # Errors
    /// A header and its argument differ.
    fn check_legacy_param_headers(&self, headers: FieldLines<'_>, params: &Params<'_>) -> Result<(), Error>;

    /// Answers a request of the legacy era.
    ///
    /// If it returns `None`, the core answers: it handles `ping` and `logging/setLevel`, and rejects any
    /// other method with an error. The core counts the bytes of the request until the request is answered. If
    /// the limit is reached, the core drops the [`Exchange`] of a [`Reply::Later`] before its first poll and
    /// answers with an error. So the backend must start its work in the exchange's future, not in this
    /// method.
    fn handle_legacy(&self, request: &LegacyRequest<'_>, output: &mut Vec<u8>) -> Option<Reply>;

    /// Answers a request of the modern era, or returns `None` if the method is unknown.
    ///
    /// The backend checks the headers `Mcp-Param-*`. It also counts the bytes of the request
    /// ([`ServerCore::hold_bytes_of`]), because work for the request may continue after its answer.
    fn handle_modern(&self, request: &ModernRequest<'_>, output: &mut Vec<u8>) -> Option<Reply>;

    /// Starts a subscription to the notifications that the client wants.
    ///
    /// # Errors
    /// The parameters of the request are invalid for this backend.
    fn listen(&self, request: &ModernRequest<'_>, wanted: WantedNotifications) -> Result<Listening, Error>;

    /// Returns `true` if the backend needs the parameters of a tool call as the client wrote them. Otherwise
    /// the core parses them once and does not keep the text.
    fn needs_params_text(&self) -> bool {
        false
    }
}

/// A request of the legacy era, with its context.
#[derive(Clone, Copy)]
pub struct LegacyRequest<'a> {
    /// The server that received the request.
    pub core: &'a Arc<ServerCore>,
    /// The session; `None` for a stateless server.
    pub session: Option<&'a Arc<Session>>,
    /// The revision of the session.
    pub revision: Revision,
    /// The message.
    pub request: &'a Request<'a>,
    /// Its parameters.
    pub params: &'a Params<'a>,
    /// The sender.
    pub caller: &'a Caller,
}

/// A request of the modern era, with its context.
#[derive(Clone, Copy)]
pub struct ModernRequest<'a> {
    /// The server that received the request.
    pub core: &'a Arc<ServerCore>,
    /// The revision that the request names.
    pub revision: Revision,
    /// The message.
    pub request: &'a Request<'a>,
    /// Its parameters.
    pub params: &'a Params<'a>,
    /// The headers of the HTTP request; `None` over other transports.
    pub headers: Option<FieldLines<'a>>,
    /// The sender.
    pub caller: &'a Caller,
}

/// The values that a backend provides for a new session.
#[derive(Debug)]
pub struct NewSession {
    /// Capabilities for the answer to `initialize`.
    pub capabilities: ServerCapabilities,
    /// State that the session keeps for the backend. A session with state has a stream for messages that
    /// belong to no request of the client.
    pub state: Option<Box<dyn BackendSession>>,
}

/// The notifications that a client subscribes to (parameters of `subscriptions/listen`).
#[derive(Clone, Default, Deserialize, Serialize)]
pub struct WantedNotifications {
    /// Changes of lists and resources.
    #[serde(flatten)]
    pub filter: SubscriptionFilter,
    /// Changes of tasks.
    #[serde(flatten)]
    pub tasks: TaskSubscriptionNotifications,
}

/// The start of a subscription.
pub enum Listening {
    /// The subscription has started.
    Now(Accepted),
    /// The subscription starts when the future is ready. An error is the answer to the request.
    Later(Pin<Box<dyn Future<Output = Result<Accepted, Error>> + Send>>),
}

/// The part of a subscription that the backend accepts.
#[derive(Default)]
pub struct Accepted {
    /// The notifications that the client will get. The first message of the subscription lists them.
    pub wanted: WantedNotifications,
    /// Resource URIs that the client requested and that the backend does not watch.
    pub refused_uris: Vec<String>,
    /// Log messages that belong to no request.
    pub logs: Option<Arc<LogInbox>>,
    /// A value that the core drops when the subscription ends.
    pub kept: Option<Box<dyn Any + Send + Sync>>,
    /// A subscription to the tasks of this server.
    pub tasks: Option<Subscription<Arc<str>>>,
}
