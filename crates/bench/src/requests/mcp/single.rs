//! Messages that are sent once, before a load.

use serde_json::{Value, json};
use thruway_http1::ResponseTo;
use thruway_mcp::Revision;
use thruway_mcp::schema::methods;

use super::message::{Endpoint, McpOperation, Message};
use crate::requests::InvalidRequest;

/// One message.
pub(crate) struct SingleMessage(Message);

impl SingleMessage {
    /// A request.
    pub(crate) fn request(
        method: &str,
        params: Value,
        revision: Revision,
        endpoint: Option<&Endpoint>,
    ) -> Result<Self, InvalidRequest> {
        let operation = McpOperation { method: method.to_owned(), params, mirrored: Vec::new(), weight: 1 };
        Message::request(&operation, revision, endpoint).map(Self)
    }

    /// What follows the answer to `initialize`.
    pub(crate) fn initialized(
        revision: Revision,
        endpoint: Option<&Endpoint>,
    ) -> Result<Self, InvalidRequest> {
        let Self(message) = Self::request(methods::NOTIFICATIONS_INITIALIZED, json!({}), revision, endpoint)?;
        Ok(Self(message.into_notification()))
    }

    /// What ends the session that the field line `session` names.
    pub(crate) fn delete(endpoint: &Endpoint, session: &[u8]) -> Result<Vec<u8>, InvalidRequest> {
        let head = endpoint.head("DELETE", Revision::LATEST_LEGACY, &[])?;
        Ok([&head[..], session, b"\r\n"].concat())
    }

    /// Appends it as it is sent over HTTP.
    pub(crate) fn write(&self, session: &[u8], output: &mut Vec<u8>) -> ResponseTo {
        self.0.write(0, 0, session, output)
    }

    /// It as a line.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut line = Vec::new();
        self.0.write_content(0, 0, &mut line);
        line.push(b'\n');
        line
    }
}
