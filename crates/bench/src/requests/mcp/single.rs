//! Messages that are sent once, before a load.

use serde_json::{Value, json};
use thruway_http1::ResponseTo;
use thruway_mcp::Revision;
use thruway_mcp::schema::methods;

use super::message::{Endpoint, McpOperation, Message};
use crate::requests::InvalidRequest;

/// One message.
pub(crate) struct SingleMessage {
    message: Message,
    id: u64,
}

impl SingleMessage {
    /// A request, the `place`th of those before a load: none has the id of another.
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

    /// Appends it as it is sent over HTTP.
    pub(crate) fn write(&self, session: &[u8], output: &mut Vec<u8>) -> ResponseTo {
        self.message.write(0, self.id, session, output)
    }

    /// It as a line.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut line = Vec::new();
        self.message.write_content(0, self.id, &mut line);
        line.push(b'\n');
        line
    }
}

/// The largest integer that every reader of JSON understands. Ids of operations are counted from the other
/// end.
const LAST_ID: u64 = (1 << 53) - 1;
