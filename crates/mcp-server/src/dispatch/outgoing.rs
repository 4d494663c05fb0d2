//! Messages for the client, and their meaning for a binding.

use std::time::Duration;

use thruway_mcp::json_rpc::{Error, ErrorCode};
use tokio::sync::OwnedSemaphorePermit;

/// A message before the answer.
#[derive(Debug)]
pub enum Said {
    /// A notification or a request of the server.
    Message(Vec<u8>),
    /// A notification of another server.
    Forwarded {
        /// The message as it is sent.
        message: Vec<u8>,
        /// Permit for its bytes in the queue of its request.
        _capacity: OwnedSemaphorePermit,
    },
    /// The client is to come back for the rest after this time, so that no connection is kept open for it.
    /// For bindings where it can: others go on.
    Disconnect(Duration),
}

/// What goes to the client.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// Something before the answer.
    Said(Said),
    /// The answer: the last message.
    Answer(Vec<u8>, Status),
}

impl Outgoing {
    /// The message, for bindings that only carry those.
    pub(crate) fn into_message(self) -> Option<Vec<u8>> {
        match self {
            Self::Said(said) => said.into_message(),
            Self::Answer(message, _) => Some(message),
        }
    }
}

impl Said {
    /// Returns the message, if it is one, and frees its capacity.
    pub fn into_message(self) -> Option<Vec<u8>> {
        match self {
            Self::Message(message) | Self::Forwarded { message, .. } => Some(message),
            Self::Disconnect(_) => None,
        }
    }
}

/// What an answer means for a binding that tells by a status of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The request was understood.
    Ok,
    /// The message breaks the rules of the protocol.
    BadRequest,
    /// There is no such method.
    NotFound,
    /// It cannot be done now; later it may be.
    Unavailable,
}

impl Status {
    /// The status that the modern era gives an error.
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
