//! Errors of requests in tests.

use std::fmt;
use std::time::Duration;

/// Reason for a failed request. The `Debug` output is the message, so `unwrap` prints a readable message.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TestError {
    /// The request cannot be sent. Contains the reason.
    InvalidRequest(String),
    /// The handler, or the body of its response, panicked. Contains the message of the panic. A client of a
    /// [`Server`](crate::Server) gets 500 instead, or an incomplete body.
    Panicked(String),
    /// The body of the response ended with an error. Contains the error. A client of a
    /// [`Server`](crate::Server) gets an incomplete body.
    BodyFailed(String),
    /// The server closed the connection before the end of the response.
    Closed,
    /// The response breaks a rule of HTTP/1.1. Contains the rule.
    InvalidResponse(String),
    /// The body does not have the expected form, such as JSON. Contains the reason.
    UnexpectedBody(String),
    /// Nothing has arrived for this time. [`TestRequest::timeout`](super::TestRequest::timeout) sets it.
    TimedOut(Duration),
}

impl fmt::Display for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidRequest(reason) => write!(f, "cannot send the request: {reason}"),
            Self::Panicked(message) => write!(f, "the handler panicked: {message}"),
            Self::BodyFailed(error) => write!(f, "the body of the response failed: {error}"),
            Self::Closed => f.write_str("the server closed the connection before the end of the response"),
            Self::InvalidResponse(rule) => write!(f, "the response is not valid HTTP/1.1: {rule}"),
            Self::UnexpectedBody(reason) => write!(f, "unexpected body: {reason}"),
            Self::TimedOut(within) => {
                write!(f, "the server sent nothing for {within:?}; `TestRequest::timeout` changes this time")
            }
        }
    }
}

impl fmt::Debug for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for TestError {}
