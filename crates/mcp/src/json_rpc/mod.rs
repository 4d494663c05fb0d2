//! Reads and writes JSON-RPC 2.0, the envelope of every MCP message.
//!
//! The parser does not build a tree of values: `params` and `result` stay JSON text.

// reading
mod id;
mod message;

// writing
mod error;
mod write;

#[cfg(test)]
mod tests;

pub use error::{Error, ErrorCode};
pub use id::{ID_BYTES_MAX, Id, RequestId};
pub use message::{
    BATCH_MESSAGES_MAX, Invalid, Message, Notification, Request, Response, parse, read_request, read_result,
    split_batch,
};
pub(crate) use write::write_request_start;
pub use write::{write_error, write_notification, write_request, write_request_with, write_result};
