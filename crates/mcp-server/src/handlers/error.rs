//! What goes wrong in handlers.

use std::fmt;

use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::CallToolResult;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a handler has no answer.
#[derive(Debug)]
pub enum HandlerError {
    /// What was asked for could not be done; the text is for whoever called. The result of a tool says so
    /// (`isError`), so that a model can try otherwise; elsewhere it becomes an internal error of the
    /// protocol.
    Failed(String),
    /// An error of the protocol, sent as it is.
    Protocol(Error),
}

impl HandlerError {
    /// What was asked for could not be done.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Failed(reason.into())
    }

    /// The result of a tool that failed in this way.
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

/// An [`Error`] of the protocol, or a `HandlerError`, that was boxed on its way stays what it is.
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
