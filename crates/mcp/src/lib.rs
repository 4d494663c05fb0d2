//! The Model Context Protocol, in all revisions from 2024-11-05 to 2026-07-28.
//!
//! This crate converts messages from bytes and to bytes. It does no I/O, reads no clock, and does not call
//! tools.
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;

// the message envelope
pub mod json_rpc;

// the contents of messages
pub mod schema;
pub mod params;
pub mod members;
mod finite;
mod revision;

// the eras
pub mod modern;
pub mod legacy;
pub mod dual_era;

// transports
pub mod stdio;
pub mod content_types;

// schemas of arguments and results
#[cfg(feature = "json-schema")]
pub mod json_schema;

// headers that mirror the body
pub mod header_value;
pub mod param_headers;

pub use finite::{NotFinite, check_finite};
pub use revision::{Era, Revision, UnknownRevision};
