//! Callbacks of the client for messages of the server: notifications, and questions. A question is an
//! elicitation, sampling or roots request.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use thruway_mcp::json_rpc::{Error, ErrorCode, Notification, Request};
use thruway_mcp::params;
use thruway_mcp::schema::{
    CreateMessageRequest, ElicitRequest, InputRequest, InputResponse, JsonObject, ListRootsRequest,
    LoggingMessageNotificationParams, ResourceUpdatedNotificationParams, methods,
};

use super::requester::{Requester, Unsent};

/// A notification of the server.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ServerNotification {
    /// A log message.
    Message(LoggingMessageNotificationParams),
    /// The list of tools has changed.
    ToolsListChanged,
    /// The list of prompts has changed.
    PromptsListChanged,
    /// The list of resources has changed.
    ResourcesListChanged,
    /// A resource has changed.
    ResourceUpdated(ResourceUpdatedNotificationParams),
    /// Any other notification.
    Other {
        /// The method of the notification.
        method: String,
        /// The parameters of the notification.
        params: JsonObject,
    },
}

/// Future that resolves to the answer to a question.
pub(super) type Answering = Pin<Box<dyn Future<Output = Result<InputResponse, Error>> + Send>>;

/// The callbacks that the user of the client has set.
#[derive(Clone, Default)]
pub(super) struct Handlers {
    pub(super) answer: Option<Arc<dyn Fn(InputRequest) -> Answering + Send + Sync>>,
    pub(super) notify: Option<Arc<dyn Fn(ServerNotification) + Send + Sync>>,
    pub(super) trace: Option<OnMessage>,
    /// Answers the questions of the server that the client cannot assign to a forwarded request. If set,
    /// `answer` does not receive these questions.
    pub(super) requester: Option<Arc<dyn Requester>>,
    /// Receives task status notifications (MCP revision 2025-11-25). If set, `notify` does not receive them.
    pub(super) tasks: Option<OnTask>,
    /// Receives log messages that the client cannot assign to one client of a bridge. If set, `notify`
    /// receives no log messages.
    pub(super) logs: Option<OnLog>,
    /// `true` if several clients of a bridge share this client.
    pub(super) is_shared: bool,
}

/// Receives each notification about a task. Returns `None`, or a message that the bridge can send to its
/// client only after the client has read earlier messages. The caller then delivers this message.
pub type OnTask = Arc<dyn Fn(&Notification<'_>) -> Option<Unsent> + Send + Sync>;

/// Receives each log message that the client cannot assign to one client of a bridge, and the origin of the
/// message.
pub type OnLog = Arc<dyn Fn(&Notification<'_>, LogOrigin) + Send + Sync>;

/// The origin of a log message that the client cannot assign to one client of a bridge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogOrigin {
    /// The message arrived outside a response, while no call was in flight.
    OutsideOfCalls,
    /// The message arrived outside a response, while calls were in flight. It may belong to one of these
    /// calls.
    DuringCalls,
    /// The message arrived with the response to a request that the bridge itself sent.
    OwnRequest,
}

/// Receives each message that the client sends or receives.
pub(super) type OnMessage = Arc<dyn Fn(Direction, &[u8]) + Send + Sync>;

/// The direction of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// To the server.
    Sent,
    /// From the server.
    Received,
}

impl Handlers {
    /// Answers a question of the server with the `answer` callback. Returns an error if this callback is
    /// not set.
    pub(super) async fn answer(&self, question: InputRequest) -> Result<InputResponse, Error> {
        match &self.answer {
            Some(answer) => answer(question).await,
            None => Err(Error::new(
                ErrorCode::METHOD_NOT_FOUND,
                "the client does not support elicitation, sampling or roots requests",
            )),
        }
    }

    /// Passes the bytes of a message to the `trace` callback.
    pub(super) fn trace(&self, direction: Direction, bytes: &[u8]) {
        if let Some(trace) = &self.trace {
            trace(direction, bytes);
        }
    }

    pub(super) fn notify(&self, notification: ServerNotification) {
        if let Some(notify) = &self.notify {
            notify(notification);
        }
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").finish_non_exhaustive()
    }
}

/// Converts a request from a legacy server to a question.
pub(super) fn question(request: &Request<'_>) -> Result<InputRequest, Error> {
    match &*request.method {
        methods::ELICITATION_CREATE => {
            Ok(InputRequest::Elicit(ElicitRequest { params: params::parse(request.params)? }))
        }
        methods::SAMPLING_CREATE_MESSAGE => {
            Ok(InputRequest::CreateMessage(CreateMessageRequest { params: params::parse(request.params)? }))
        }
        methods::ROOTS_LIST => {
            Ok(InputRequest::ListRoots(ListRootsRequest { params: Some(params::parse(request.params)?) }))
        }
        _ => Err(Error::new(ErrorCode::METHOD_NOT_FOUND, "no such method")),
    }
}

/// Parses a notification. Returns `None` if the notification is malformed.
pub(super) fn notification(notification: &Notification<'_>) -> Option<ServerNotification> {
    Some(match &*notification.method {
        methods::NOTIFICATIONS_MESSAGE => {
            ServerNotification::Message(params::parse(notification.params).ok()?)
        }
        methods::NOTIFICATIONS_TOOLS_LIST_CHANGED => ServerNotification::ToolsListChanged,
        methods::NOTIFICATIONS_PROMPTS_LIST_CHANGED => ServerNotification::PromptsListChanged,
        methods::NOTIFICATIONS_RESOURCES_LIST_CHANGED => ServerNotification::ResourcesListChanged,
        methods::NOTIFICATIONS_RESOURCES_UPDATED => {
            ServerNotification::ResourceUpdated(params::parse(notification.params).ok()?)
        }
        method => ServerNotification::Other {
            method: method.to_owned(),
            params: params::parse(notification.params).ok()?,
        },
    })
}
