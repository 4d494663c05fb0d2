//! Messages that the client sends once, before a load.

use serde_json::{Value, json};
use thruway_http1::ResponseTo;
use thruway_mcp::Revision;
use thruway_mcp::schema::methods;

use super::message::{Endpoint, McpOperation, Message};
use crate::requests::InvalidRequest;

/// A single message.
pub(crate) struct SingleMessage {
    message: Message,
    id: u64,
}

impl SingleMessage {
    /// Builds a request that the client sends before a load. `place` is the number of this request, and
    /// determines its unique id.
    pub(crate) fn request(
        place: u64,
        method: &str,
        params: Value,
        revision: Revision,
        endpoint: Option<&Endpoint>,
    ) -> Result<Self, InvalidRequest> {
        let operation = McpOperation { method: method.to_owned(), params, mirrored: Vec::new(), weight: 1 };
        let message = Message::request(&operation, revision, endpoint)?;
        Ok(Self { message, id: LAST_ID - place })
    }

    /// Builds the notification that the client sends after the server has answered `initialize`.
    pub(crate) fn initialized(
        revision: Revision,
        endpoint: Option<&Endpoint>,
    ) -> Result<Self, InvalidRequest> {
        let method = methods::NOTIFICATIONS_INITIALIZED;
        let request = Self::request(0, method, json!({}), revision, endpoint)?;
        Ok(Self { message: request.message.into_notification(), ..request })
    }

    /// Builds the request that ends a session. `session` is the header line with the session id.
    pub(crate) fn delete(endpoint: &Endpoint, session: &[u8]) -> Result<Vec<u8>, InvalidRequest> {
        let head = endpoint.head("DELETE", Revision::LATEST_LEGACY, &[])?;
        Ok([&head[..], session, b"\r\n"].concat())
    }

    /// Appends the message as an HTTP request.
    pub(crate) fn write(&self, session: &[u8], output: &mut Vec<u8>) -> ResponseTo {
        self.message.write(0, self.id, session, output)
    }

    /// Returns the message as a line for pipes.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut line = Vec::new();
        self.message.write_content(0, self.id, &mut line);
        line.push(b'\n');
        line
    }
}

/// The largest integer that every JSON parser reads exactly. The ids of single messages count down from
/// this value. The ids of operations count up from 1, so ids never collide.
const LAST_ID: u64 = (1 << 53) - 1;
