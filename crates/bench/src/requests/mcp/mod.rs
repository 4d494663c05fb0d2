//! MCP messages over Streamable HTTP and over pipes: operations by weight, their sessions, and the parser of
//! responses.
//!
//! This module sends nothing and parses responses without building a tree.

// output
mod message;
mod single;

// input
mod reading;
mod content;

// both, in order
mod conversation;
mod prepared;

pub(crate) use content::MESSAGE_BYTES_MAX;
pub use conversation::Conversation;
pub(crate) use conversation::Done;
pub use message::{Endpoint, McpOperation, SessionUse};
pub use prepared::McpRequests;
pub(crate) use reading::{Reading, read};
pub(crate) use single::SingleMessage;
