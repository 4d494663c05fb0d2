//! Messages for the client, and their meaning for the transports.

use std::time::Duration;

use thruway_mcp::json_rpc::{Error, ErrorCode};
use tokio::sync::OwnedSemaphorePermit;

/// A message before the answer.
#[derive(Debug)]
pub enum InterimMessage {
    /// A notification or a request of the server.
    Message(Vec<u8>),
    /// A notification of another server.
    Forwarded {
        /// The message as it is sent.
        message: Vec<u8>,
        /// A permit for its bytes in the queue of its request.
        _capacity: OwnedSemaphorePermit,
    },
    /// The client should reconnect after this time for the remaining messages, so that no connection stays
    /// open meanwhile. Transports without reconnection ignore it.
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
    /// Returns the message, for transports that only transmit messages.
    pub(crate) fn into_message(self) -> Option<Vec<u8>> {
        match self {
            Self::InterimMessage(said) => said.into_message(),
            Self::Answer(message, _) => Some(message),
        }
    }
}

impl InterimMessage {
    /// Returns the message, if there is one, and frees its capacity.
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
    /// The server understood the request.
    Ok,
    /// The message violates the protocol.
    BadRequest,
    /// The method is unknown.
    NotFound,
    /// The request cannot be handled now; a retry may succeed later.
    Unavailable,
}

impl Status {
    /// Returns the status of an error in the modern era.
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
