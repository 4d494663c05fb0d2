//! The Model Context Protocol, every revision from 2024-11-05 to 2026-07-28.
//!
//! Messages come in as octets and go out as octets. Nothing here does I/O, knows the time, or decides what a
//! tool does.
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;

// the envelope
pub mod json_rpc;

// what messages say
pub mod schema;
pub mod params;
pub mod members;
mod finite;
mod revision;

// the eras
pub mod modern;
pub mod legacy;
pub mod dual_era;

// how messages are framed
pub mod stdio;
pub mod content_types;

// schemas of arguments and results
#[cfg(feature = "json-schema")]
pub mod json_schema;

// the headers that mirror the body
pub mod header_value;
pub mod param_headers;

pub use finite::{NotFinite, check_finite};
pub use revision::{Era, Revision, UnknownRevision};
