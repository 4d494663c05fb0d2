//! MCP messages over Streamable HTTP and over pipes. This module encodes operations and sessions, and
//! parses responses.
//!
//! This module does not send anything. The module parses responses without building a tree of JSON values.

// output
mod message;
mod single;

// input
mod reading;
mod content;

// order of messages
mod conversation;
mod prepared;

pub(crate) use content::MESSAGE_BYTES_MAX;
pub use conversation::Conversation;
pub(crate) use conversation::Done;
pub use message::{Endpoint, McpOperation, SessionUse};
pub use prepared::McpRequests;
pub(crate) use reading::{Reading, read};
pub(crate) use single::SingleMessage;
