//! Errors of test clients.

use std::fmt;

use thruway_mcp::json_rpc::Error;

/// The reason why a request of a [`TestClient`](super::TestClient) has no result.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum TestError {
    /// The tool has failed, or has rejected the arguments. Contains the text for the model.
    Tool(String),
    /// The server has answered with an error of the protocol.
    Protocol(Error),
    /// The result does not have the type that the test expects. Contains the reason and the result.
    Result(String),
    /// The arguments of the test cannot be written as JSON. Contains the reason.
    Arguments(String),
}

impl From<Error> for TestError {
    fn from(error: Error) -> Self {
        Self::Protocol(error)
    }
}

impl fmt::Display for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(text) => write!(f, "the tool has failed: {text}"),
            Self::Protocol(error) => write!(f, "the server has answered with an error: {error}"),
            Self::Result(reason) => write!(f, "the result does not have the expected type: {reason}"),
            Self::Arguments(reason) => write!(f, "cannot write the arguments as JSON: {reason}"),
        }
    }
}

impl std::error::Error for TestError {}
