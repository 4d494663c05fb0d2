//! Why a request's query, content or cookies cannot be understood.

use std::fmt;

use thruway_message::StatusCode;

use crate::{ContentError, IntoResponse, Response};

/// A request that does not hold what the handler asks it for. Returned from a handler, it answers the client.
#[derive(Debug)]
pub struct Rejection {
    status: StatusCode,
    message: String,
}

impl Rejection {
    /// A rejection with `status`, and a message for the client.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// The status that it is answered with.
    pub const fn status(&self) -> StatusCode {
        self.status
    }
}

impl From<ContentError> for Rejection {
    fn from(error: ContentError) -> Self {
        Self::new(error.status(), error.to_string())
    }
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        Response::text(self.message).with_status(self.status)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Rejection {}
