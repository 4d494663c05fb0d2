//! Messages of MCP, over Streamable HTTP and over pipes: operations by weight, sessions around them, answers read as messages.
//!
//! Nothing here is sent, and no tree is built of what comes.

// octets out
mod message;
mod single;

// octets in
mod reading;
mod content;

// both, in their order
mod conversation;

pub(crate) use content::MESSAGE_BYTES_MAX;
pub use conversation::Conversation;
pub(crate) use conversation::Done;
pub use message::{Endpoint, McpOperation};
pub(crate) use reading::{Reading, read};
pub(crate) use single::SingleMessage;

use std::sync::Arc;

use thruway_http1::ResponseTo;
use thruway_mcp::Revision;

use super::{Expected, InvalidRequest, Requests};
use message::Messages;

/// How long sessions of the legacy era are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionUse {
    /// There are none: each request stands for itself, as all do in the modern era.
    None,
    /// The first request of a connection begins one, which lasts as long as the connection.
    PerConnection,
    /// Each request has its own, from `initialize` to `DELETE`; all of that is its time.
    PerCall,
}

/// Messages of MCP that are chosen by weight: at random, and always the same for the same number.
#[derive(Debug)]
pub struct McpRequests {
    messages: Arc<Messages>,
    expected: Expected,
}

impl McpRequests {
    /// These operations, in the revision `revision`; to `endpoint`, or over pipes if there is none.
    ///
    /// # Errors
    /// There is none, or a header field cannot be sent.
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
