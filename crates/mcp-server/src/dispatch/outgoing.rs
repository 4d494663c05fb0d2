//! Messages for the client, and the status of answers.

use std::time::Duration;

use thruway_mcp::json_rpc::{Error, ErrorCode};
use tokio::sync::OwnedSemaphorePermit;

/// A message that the server sends to the client before the answer to a request.
#[derive(Debug)]
pub enum InterimMessage {
    /// A notification or a request of the server.
    Message(Vec<u8>),
    /// A notification of the server behind a bridge.
    Forwarded {
        /// The notification in the form that the client gets.
        message: Vec<u8>,
        /// One semaphore permit for each byte of the notification. The number of permits limits the total
        /// size of the message queue.
        _capacity: OwnedSemaphorePermit,
    },
    /// Ends the client's event stream, so that no connection stays open while the handler works. The client
    /// reconnects after this duration to get the remaining messages. Transports without reconnection ignore
    /// this variant.
    Disconnect(Duration),
}

/// A message for the client.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// A message before the answer.
    InterimMessage(InterimMessage),
    /// The answer, which is the last message.
    Answer(Vec<u8>, Status),
}

impl Outgoing {
    /// Returns the JSON-RPC message without its status. Returns `None` for [`InterimMessage::Disconnect`].
    pub(crate) fn into_message(self) -> Option<Vec<u8>> {
        match self {
            Self::InterimMessage(said) => said.into_message(),
            Self::Answer(message, _) => Some(message),
        }
    }
}

impl InterimMessage {
    /// Returns the JSON-RPC message, and releases its permits for the queue. Returns `None` for
    /// [`InterimMessage::Disconnect`].
    pub fn into_message(self) -> Option<Vec<u8>> {
        match self {
            Self::Message(message) | Self::Forwarded { message, .. } => Some(message),
            Self::Disconnect(_) => None,
        }
    }
}

/// The status of an answer, for transports that have status codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The server understood the request, although the answer may be an error.
    Ok,
    /// The message violates the protocol.
    BadRequest,
    /// The method is unknown.
    NotFound,
    /// The server cannot handle the request now. Contains the time after which a retry may succeed, if known.
    Unavailable(Option<Duration>),
    /// The caller has sent too many requests. Contains the time after which a retry may succeed, if known.
    TooManyRequests(Option<Duration>),
}

impl Status {
    /// Returns the status for an error in the modern era.
    pub fn of(error: &Error) -> Self {
        match error.code {
            ErrorCode::METHOD_NOT_FOUND => Self::NotFound,
            ErrorCode::PARSE_ERROR
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::HEADER_MISMATCH
            | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
            | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => Self::BadRequest,
            _ => Self::Ok,
        }
    }
}
