//! The requests of a load that consists of MCP messages.

use std::sync::Arc;

use thruway_http1::ResponseTo;
use thruway_mcp::Revision;

use super::conversation::Conversation;
use super::message::{Endpoint, McpOperation, Messages, SessionUse};
use crate::requests::error::InvalidRequest;
use crate::requests::expected::Expected;
use crate::requests::source::Requests;

/// MCP messages that are selected at random by their weights. The same request number always selects the
/// same message.
#[derive(Debug)]
pub struct McpRequests {
    messages: Arc<Messages>,
    expected: Expected,
}

impl McpRequests {
    /// Encodes these operations in the protocol revision `revision`. If `endpoint` is `None`, the
    /// operations are for pipes instead of HTTP.
    ///
    /// # Errors
    /// Returns an error if there is no operation, or if a header field is invalid.
    pub fn new(
        revision: Revision,
        sessions: SessionUse,
        operations: &[McpOperation],
        endpoint: Option<&Endpoint>,
    ) -> Result<Self, InvalidRequest> {
        let messages = Messages::new(revision, sessions, operations, endpoint)?;
        Ok(Self { messages: Arc::new(messages), expected: Expected::default() })
    }
}

impl Requests for McpRequests {
    fn write(&self, number: u64, output: &mut Vec<u8>) -> ResponseTo {
        self.messages.write_operation(number, b"", output)
    }

    fn expected(&self, _: u64) -> &Expected {
        &self.expected
    }

    fn conversation(&self) -> Option<Conversation> {
        Some(Conversation::new(self.messages.clone()))
    }
}
