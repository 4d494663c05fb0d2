//! Messages that are sent once, before a load.

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
    /// Builds request number `place` of the requests before a load. Its id is unique.
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

    /// Builds the notification after the response to `initialize`.
    pub(crate) fn initialized(
        revision: Revision,
        endpoint: Option<&Endpoint>,
    ) -> Result<Self, InvalidRequest> {
        let method = methods::NOTIFICATIONS_INITIALIZED;
        let request = Self::request(0, method, json!({}), revision, endpoint)?;
        Ok(Self { message: request.message.into_notification(), ..request })
    }

    /// Builds the request that ends the session of the header line `session`.
    pub(crate) fn delete(endpoint: &Endpoint, session: &[u8]) -> Result<Vec<u8>, InvalidRequest> {
        let head = endpoint.head("DELETE", Revision::LATEST_LEGACY, &[])?;
        Ok([&head[..], session, b"\r\n"].concat())
    }

    /// Appends the message in its form for HTTP.
    pub(crate) fn write(&self, session: &[u8], output: &mut Vec<u8>) -> ResponseTo {
        self.message.write(0, self.id, session, output)
    }

    /// Returns the message as a line.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut line = Vec::new();
        self.message.write_content(0, self.id, &mut line);
        line.push(b'\n');
        line
    }
}

/// The largest integer that every JSON parser reads exactly. These ids count downwards, and those of
/// operations upwards.
const LAST_ID: u64 = (1 << 53) - 1;
