//! Why a call has no result.

use std::{fmt, io};

use thruway_client::{ClientError, Side};
use thruway_mcp::{Revision, json_rpc};
use thruway_message::StatusCode;

use super::authorization::OAuthError;

/// Why a call has no result.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum McpClientError {
    /// A message that is larger than allowed may have been the answer: nobody can tell whose it was.
    AnswerLost,
    /// The arguments cannot be written as a JSON object.
    ArgumentsInvalid,
    /// The server wants a token, and there is none that it takes.
    Authorization(OAuthError),
    /// The other end has closed the connection, or ended the stream before the answer. Whether the request
    /// was handled is not known.
    Closed,
    /// The server sends JSON lines, where Streamable HTTP has one JSON message or an event stream.
    FramingInvalid,
    /// There is no response of HTTP.
    Http(ClientError),
    /// A line or an event of the server may have been the answer, but is no JSON-RPC message in UTF-8. The
    /// log shows it.
    LineInvalid,
    /// The server has sent what is no message, or the answer to another request.
    MessageInvalid,
    /// A message is larger than [allowed](super::McpClientOptions::message_bytes_max).
    MessageTooLarge,
    /// What the server asked could not be answered.
    QuestionFailed(json_rpc::Error),
    /// The result is not what the method promises; and why.
    ResultInvalid(Box<str>),
    /// The runtime has ended that the client was made in, and the stream to its server with it.
    RuntimeEnded,
    /// The server has answered with an error.
    Server(json_rpc::Error),
    /// The session of the legacy era has ended, and a second one too.
    SessionEnded,
    /// The child process could not be started.
    Start(io::ErrorKind),
    /// The server has answered with this status, and no message.
    Status(StatusCode),
    /// The task was given up.
    TaskCancelled,
    /// No answer came in time.
    TimedOut,
    /// The child process has ended soon after each of its starts, and is not started again for a while.
    TooManyRestarts,
    /// The server has asked again and again.
    TooManyRounds,
    /// There are as many servers for one client alone as there [may be](crate::BridgeOptions::servers_max).
    TooManyServers,
    /// The caller has its share of the servers for one client alone (see
    /// [`servers_max`](crate::BridgeOptions::servers_max)).
    TooManyServersOfCaller,
    /// The server speaks no revision that this client may speak.
    UnsupportedRevision,
}

impl McpClientError {
    /// The result is not what it should be; `reason` may quote what the server sent.
    pub fn result_invalid(reason: &impl fmt::Display) -> Self {
        let mut reason = reason.to_string();
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        Self::ResultInvalid(reason.into())
    }

    /// `true` if the same call may succeed later although nobody changes anything: the server cannot be
    /// reached, is overloaded, or did not answer in time.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Authorization(error) => error.is_passing(),
            Self::Closed | Self::SessionEnded | Self::TimedOut => true,
            Self::Http(error) => error.side() != Side::Client,
            Self::Status(status) => status.as_u16() >= 500 || matches!(status.as_u16(), 408 | 429),
            _ => false,
        }
    }

    /// `true` if a bridge has no capacity for one more server.
    pub const fn is_of_capacity(&self) -> bool {
        matches!(self, Self::TooManyServers | Self::TooManyServersOfCaller)
    }

    /// The server's error with its code, if it has answered with one.
    pub const fn server_error(&self) -> Option<&json_rpc::Error> {
        match self {
            Self::Server(error) => Some(error),
            _ => None,
        }
    }
}

/// How much is said of what is wrong with a result.
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
                "a message of the server is larger than allowed, and nobody can tell whose answer it was",
            ),
            Self::ArgumentsInvalid => f.write_str("the arguments are no JSON object"),
            Self::Authorization(error) => error.fmt(f),
            Self::Closed => f.write_str("the connection ended before the answer"),
            Self::FramingInvalid => f.write_str(
                "the server sends JSON lines; a response must be one JSON message or an event stream",
            ),
            Self::Http(error) => error.fmt(f),
            Self::LineInvalid => f.write_str(
                "the server has sent a line that is not a JSON-RPC message in UTF-8; the log shows the line",
            ),
            Self::MessageInvalid => f.write_str("the server has sent what is no answer to the request"),
            Self::MessageTooLarge => f.write_str("a message of the server is larger than allowed"),
            Self::QuestionFailed(error) => write!(f, "a question of the server has no answer: {error}"),
            Self::ResultInvalid(reason) => write!(f, "the result of the server is invalid: {reason}"),
            Self::RuntimeEnded => f.write_str("the runtime that the client was made in has ended"),
            Self::Server(error) => error.fmt(f),
            Self::SessionEnded => f.write_str("the server ends the session again and again"),
            Self::Start(kind) => write!(f, "the server cannot be started: {kind}"),
            Self::Status(status) => write!(f, "the server has answered with the status {status}"),
            Self::TaskCancelled => f.write_str("the task was given up"),
            Self::TimedOut => f.write_str("no answer came in time"),
            Self::TooManyRestarts => {
                f.write_str("the server ends again and again, and is not started for a while")
            }
            Self::TooManyRounds => f.write_str("the server asks again and again"),
            Self::TooManyServers => f.write_str("there are as many as there may be"),
            Self::TooManyServersOfCaller => {
                f.write_str("this caller has as many servers as one caller may have")
            }
            Self::UnsupportedRevision => {
                let known = Revision::ALL.map(Revision::as_str).join(", ");
                write!(f, "the server speaks none of the revisions that may be spoken, of {known}")
            }
        }
    }
}

impl std::error::Error for McpClientError {}
