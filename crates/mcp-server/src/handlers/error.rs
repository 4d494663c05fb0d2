//! Errors of handlers.

use std::fmt;

use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::CallToolResult;

/// Any error that can be sent between threads.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The error that a handler returns instead of an answer.
#[derive(Debug)]
pub enum HandlerError {
    /// The operation failed. The text explains the failure to the caller. For a tool, the text becomes a
    /// result with `isError`, so that a model can correct its next call. For other requests, the text
    /// becomes an internal error of the protocol.
    Failed(String),
    /// A protocol error, which the server sends unchanged.
    Protocol(Error),
}

impl HandlerError {
    /// Returns the error of a failed operation. `reason` is the text for the client.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Failed(reason.into())
    }

    /// Converts [`HandlerError::Failed`] to a tool result. Returns protocol errors unchanged.
    pub(crate) fn into_tool_result(self) -> Result<CallToolResult, Self> {
        match self {
            Self::Failed(reason) => Ok(CallToolResult::error(reason)),
            Self::Protocol(_) => Err(self),
        }
    }
}

impl From<String> for HandlerError {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

impl From<&str> for HandlerError {
    fn from(reason: &str) -> Self {
        Self::Failed(reason.to_owned())
    }
}

impl From<Error> for HandlerError {
    fn from(error: Error) -> Self {
        Self::Protocol(error)
    }
}

/// Takes a `HandlerError` out of the box unchanged. A protocol [`Error`] becomes [`HandlerError::Protocol`].
/// Any other error becomes [`HandlerError::Failed`].
impl From<BoxError> for HandlerError {
    fn from(error: BoxError) -> Self {
        let error = match error.downcast::<Self>() {
            Ok(error) => return *error,
            Err(error) => error,
        };
        match error.downcast::<Error>() {
            Ok(error) => Self::Protocol(*error),
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

impl From<HandlerError> for Error {
    fn from(error: HandlerError) -> Self {
        match error {
            HandlerError::Failed(reason) => Self::internal(reason),
            HandlerError::Protocol(error) => error,
        }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(reason) => f.write_str(reason),
            Self::Protocol(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for HandlerError {}
