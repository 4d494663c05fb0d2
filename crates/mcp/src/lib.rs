//! The Model Context Protocol (MCP), in all revisions from 2024-11-05 to 2026-07-28.
//!
//! This crate converts messages from bytes and to bytes. The crate does no I/O, reads no clock, and does
//! not call tools.
//!
//! ```
//! use thruway_mcp::json_rpc::{self, Message};
//!
//! let message = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
//! let Ok(Message::Request(request)) = json_rpc::parse(message) else { panic!("not a request") };
//! assert_eq!(request.method, "tools/list");
//!
//! let mut answer = Vec::new();
//! json_rpc::write_result(&mut answer, &request.id, |output| {
//!     output.extend_from_slice(br#"{"tools":[]}"#);
//!     Ok(())
//! });
//! assert_eq!(answer, br#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#);
//! ```
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;

// the message envelope
pub mod json_rpc;

// the contents of messages
pub mod schema;
pub mod params;
pub mod members;
pub mod traced_call;
mod finite;
mod revision;

// the eras
pub mod modern;
pub mod legacy;
pub mod dual_era;

// several servers behind one endpoint
pub mod federated;

// transports
pub mod stdio;
pub mod content_types;

// validation with JSON Schemas
#[cfg(feature = "json-schema")]
pub mod json_schema;

// HTTP headers that repeat values of the message body
pub mod header_value;
pub mod param_headers;

pub use finite::{NotFinite, check_finite};
pub use revision::{Era, Revision, UnknownRevision};
