//! HTTP responses, independent of the HTTP engine that sends them.

use thruway_message::FieldLinesBuf;
use thruway_net::{Admitted, LogLimit, PooledBuffer};
use thruway_server::{Content, Event, Response, StatusCode};

/// An HTTP response with its whole body in memory.
#[derive(Debug)]
pub(crate) struct WholeResponse {
    pub(crate) status: StatusCode,
    pub(crate) field_lines: FieldLinesBuf,
    pub(crate) content: BodyBytes,
}

/// The body of a response, in one of several kinds of buffers.
#[derive(Debug)]
pub(crate) enum BodyBytes {
    None,
    Pooled(PooledBuffer),
    Owned(Vec<u8>),
}

impl WholeResponse {
    /// Returns a response without field lines and without a body.
    pub(crate) const fn new(status: StatusCode) -> Self {
        Self { status, field_lines: FieldLinesBuf::new(), content: BodyBytes::None }
    }

    /// Replaces the status of the response.
    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Adds a field line. If the field line is invalid, the response becomes a 500 without a body. Only a bug
    /// in this crate can cause an invalid field line.
    pub(crate) fn with_field(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        match self.field_lines.append(name, value) {
            Ok(()) => self,
            Err(error) => {
                static LIMIT: LogLimit = LogLimit::new();
                if let Some(Admitted { suppressed }) = LIMIT.admit() {
                    tracing::error!(
                        %error,
                        name,
                        suppressed,
                        "a response header is invalid, sending status 500 instead"
                    );
                }
                Self::new(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }
}

impl From<WholeResponse> for Response {
    fn from(response: WholeResponse) -> Self {
        let content = match response.content {
            BodyBytes::None => Content::empty(),
            BodyBytes::Pooled(bytes) => bytes.into(),
            BodyBytes::Owned(bytes) => bytes.into(),
        };
        Self::ok(response.field_lines, content).with_status(response.status)
    }
}

/// Returns `message` as a server-sent event. Messages are JSON and therefore UTF-8.
pub(crate) fn event(message: &[u8]) -> Event {
    Event::data(&String::from_utf8_lossy(message)).with_type("message")
}
