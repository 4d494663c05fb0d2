//! Messages of MCP, over Streamable HTTP and over pipes: operations by weight, sessions around them, answers
//! read as messages.
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
mod prepared;

pub(crate) use content::MESSAGE_BYTES_MAX;
pub use conversation::Conversation;
pub(crate) use conversation::Done;
pub use message::{Endpoint, McpOperation, SessionUse};
pub use prepared::McpRequests;
pub(crate) use reading::{Reading, read};
pub(crate) use single::SingleMessage;
