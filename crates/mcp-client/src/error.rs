//! The errors of calls.

use std::{fmt, io};

use thruway_client::{ClientError, Side};
use thruway_mcp::{Revision, json_rpc};
use thruway_message::StatusCode;

use super::authorization::OAuthError;

/// The reason why a call has no result.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum McpClientError {
    /// The server sent a message that is larger than allowed and has no readable id. The message may have
    /// been the answer to this call.
    AnswerLost,
    /// The arguments are not a JSON object.
    ArgumentsInvalid,
    /// The server requires a token, and the client could not obtain a token that the server accepts.
    Authorization(OAuthError),
    /// The server closed the connection, or ended the stream, before the answer. The server may have handled
    /// the request.
    Closed,
    /// The server sends JSON lines instead of one JSON message or an event stream (Streamable HTTP).
    FramingInvalid,
    /// The HTTP request failed without a response.
    Http(ClientError),
    /// The client could not answer an elicitation, sampling or roots request of the server.
    InputRequestFailed(json_rpc::Error),
    /// The server sent a line or an event that is not a JSON-RPC message in UTF-8, and that may have been the
    /// answer. The log shows the line.
    LineInvalid,
    /// The server sent an invalid message, or the answer to another request.
    MessageInvalid,
    /// A message is larger than [`message_bytes_max`](super::McpClientOptions::message_bytes_max).
    MessageTooLarge,
    /// The result does not match the schema of the method or the tool. Contains the reason.
    ResultInvalid(Box<str>),
    /// The tokio runtime that created the client has ended, so the stream to the server has ended too.
    RuntimeEnded,
    /// The server answered with an error.
    Server(json_rpc::Error),
    /// The server ended the session (legacy era). The client started another session, and the server ended
    /// that session too.
    SessionEnded,
    /// The client could not start the child process.
    Start(io::ErrorKind),
    /// The server answered with this HTTP status and without a JSON-RPC message.
    Status(StatusCode),
    /// The task was canceled.
    TaskCancelled,
    /// The server did not answer before the timeout.
    TimedOut,
    /// The child process exited soon after each start. The client waits before it starts the process again.
    TooManyRestarts,
    /// The server requested input too often. The result of one call may need input at most
    /// [`rounds_max`](super::McpClientOptions::rounds_max) times. One task may send at most 100 elicitation,
    /// sampling or roots requests. A bridge from a legacy client to a modern server has a limit of 32 instead
    /// of `rounds_max`.
    TooManyRounds,
    /// The bridge already runs the maximum number of servers that serve only one client (see
    /// `BridgeOptions::servers_max`).
    TooManyServers,
    /// The caller already uses its share of the servers that serve only one client (see
    /// `BridgeOptions::servers_max`).
    TooManyServersOfCaller,
    /// The server supports no revision that this client may use.
    UnsupportedRevision,
}

impl McpClientError {
    /// Creates the error for an invalid result. `reason` may quote text from the server.
    pub fn result_invalid(reason: &impl fmt::Display) -> Self {
        let mut reason = reason.to_string();
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        Self::ResultInvalid(reason.into())
    }

    /// `true` if the same call may succeed later without any change: the server is unreachable, overloaded,
    /// or too slow.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Authorization(error) => error.is_passing(),
            Self::Closed | Self::SessionEnded | Self::TimedOut => true,
            Self::Http(error) => error.side() != Side::Client,
            Self::Status(status) => status.as_u16() >= 500 || matches!(status.as_u16(), 408 | 429),
            _ => false,
        }
    }

    /// `true` if a bridge refused the call because the bridge must not start another server.
    pub const fn is_of_capacity(&self) -> bool {
        matches!(self, Self::TooManyServers | Self::TooManyServersOfCaller)
    }

    /// Returns the JSON-RPC error from the server, if the server answered with an error.
    pub const fn server_error(&self) -> Option<&json_rpc::Error> {
        match self {
            Self::Server(error) => Some(error),
            _ => None,
        }
    }
}

/// Maximum length of the reason in [`McpClientError::ResultInvalid`], in bytes.
const REASON_BYTES_MAX: usize = 300;

impl From<ClientError> for McpClientError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::ContentTooLarge | ClientError::EventTooLarge => Self::MessageTooLarge,
            ClientError::EventsInvalid => Self::FramingInvalid,
            error => Self::Http(error),
        }
    }
}

impl From<OAuthError> for McpClientError {
    fn from(error: OAuthError) -> Self {
        Self::Authorization(error)
    }
}

impl fmt::Display for McpClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnswerLost => f.write_str(
                "the server sent a message that is larger than allowed and has no readable id; it \
                 may have been the answer to this call",
            ),
            Self::ArgumentsInvalid => {
                f.write_str("cannot send the request: the arguments are not a JSON object")
            }
            Self::Authorization(error) => error.fmt(f),
            Self::Closed => f.write_str("the connection ended before the server answered"),
            Self::FramingInvalid => f.write_str(
                "the server sends JSON lines; a response must be one JSON message or an event stream",
            ),
            Self::Http(error) => error.fmt(f),
            Self::InputRequestFailed(error) => {
                write!(
                    f,
                    "the client could not answer the server's elicitation, sampling or roots request: {error}"
                )
            }
            Self::LineInvalid => f.write_str(
                "the server sent a line that is not a JSON-RPC message in UTF-8; the log shows the line",
            ),
            Self::MessageInvalid => {
                f.write_str("the server sent an invalid message, or the answer to another request")
            }
            Self::MessageTooLarge => {
                f.write_str("the server sent a message that is larger than allowed; see `message_bytes_max`")
            }
            Self::ResultInvalid(reason) => write!(f, "the server sent an invalid result: {reason}"),
            Self::RuntimeEnded => {
                f.write_str("the tokio runtime that created the client has ended; create the client again")
            }
            Self::Server(error) => error.fmt(f),
            Self::SessionEnded => {
                f.write_str("the server ended the session, and then also the session that replaced it")
            }
            Self::Start(kind) => write!(f, "the server cannot be started: {kind}"),
            Self::Status(status) if status.is_success() => {
                write!(f, "the response with status {status} is neither JSON nor an event stream")
            }
            Self::Status(status) if matches!(status.as_u16(), 502..=504) => {
                write!(f, "the server is unavailable (status {status})")
            }
            Self::Status(status) => write!(f, "the server answered with status {status}"),
            Self::TaskCancelled => f.write_str("the task was canceled"),
            Self::TimedOut => f.write_str("the server did not answer before the timeout"),
            Self::TooManyRestarts => f.write_str(
                "the server exited soon after each start; the client waits before it \
                 starts the server again",
            ),
            Self::TooManyRounds => f.write_str(
                "the server requested input (elicitation, sampling or roots) too often for one call or task",
            ),
            Self::TooManyServers => f.write_str("the bridge has reached `servers_max`; try again later"),
            Self::TooManyServersOfCaller => f.write_str("this caller has reached its share of `servers_max`"),
            Self::UnsupportedRevision => {
                let known = Revision::ALL.map(Revision::as_str).join(", ");
                write!(
                    f,
                    "the server supports none of the revisions that this client may use; \
                 known revisions: {known}"
                )
            }
        }
    }
}

impl std::error::Error for McpClientError {}
