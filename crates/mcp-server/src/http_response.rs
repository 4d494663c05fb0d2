//! Responses of HTTP that belong to no engine yet, so that any may send them.

use thruway_message::FieldLinesBuf;
use thruway_net::{Admitted, LogLimit, PooledBuffer};
use thruway_server::{Content, Event, Response, StatusCode};

/// A response all of whose content is there.
#[derive(Debug)]
pub(crate) struct WholeResponse {
    pub(crate) status: StatusCode,
    pub(crate) field_lines: FieldLinesBuf,
    pub(crate) content: Octets,
}

/// Octets in whatever they were written to.
#[derive(Debug)]
pub(crate) enum Octets {
    None,
    Pooled(PooledBuffer),
    Owned(Vec<u8>),
}

impl WholeResponse {
    /// A response without fields and content.
    pub(crate) const fn new(status: StatusCode) -> Self {
        Self { status, field_lines: FieldLinesBuf::new(), content: Octets::None }
    }

    /// The same with another status.
    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// The same with one more field line. If it is invalid, which is a mistake of the program, it becomes 500
    /// without content.
    pub(crate) fn with_field(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        match self.field_lines.append(name, value) {
            Ok(()) => self,
            Err(error) => {
                static LIMIT: LogLimit = LogLimit::new();
                if let Some(Admitted { suppressed }) = LIMIT.admit() {
                    tracing::error!(%error, name, suppressed, "a response field is invalid");
                }
                Self::new(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }
}

impl From<WholeResponse> for Response {
    fn from(response: WholeResponse) -> Self {
        let content = match response.content {
            Octets::None => Content::empty(),
            Octets::Pooled(octets) => octets.into(),
            Octets::Owned(octets) => octets.into(),
        };
        Self::ok(response.field_lines, content).with_status(response.status)
    }
}

/// A message as an event. Messages are JSON, which is UTF-8.
pub(crate) fn event(message: &[u8]) -> Event {
    Event::data(&String::from_utf8_lossy(message)).with_type("message")
}
