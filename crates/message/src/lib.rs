//! Types for HTTP messages of all protocol versions (RFC 9110).
//!
//! Most types borrow from the bytes of the parsed message. This crate does not parse HTTP/1.1 framing,
//! does no I/O and reads no clock. The crate stores fields in flat lists instead of maps.
//!
//! ```
//! use thruway_message::{FieldLinesBuf, Method, StatusCode};
//!
//! let mut fields = FieldLinesBuf::from_static("Content-Type: text/plain\r\n");
//! fields.append("Cache-Control", "no-store")?;
//! assert_eq!(fields.field("cache-control").unwrap(), "no-store");
//! assert!(Method::Get.is_safe() && StatusCode::OK.is_success());
//! # Ok::<_, thruway_message::InvalidFieldLine>(())
//! ```
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;

// grammar
pub mod list;
pub mod token;

// control data
mod authority;
mod method;
mod request_target;
mod status_code;
mod userinfo;

// fields
mod field_line;
mod field_lines;

// whole heads
mod head;

pub use authority::{Authority, InvalidAuthority};
pub use field_line::{FieldLine, FieldName, FieldValue, InvalidFieldLine};
pub use field_lines::{FieldLineSpan, FieldLines, FieldLinesBuf, FieldLinesIter, FieldSection};
pub use head::{OwnedRequestHead, OwnedResponseHead, RequestHead, ResponseHead, Version};
pub use method::{InvalidMethod, Method};
pub use request_target::{AbsoluteForm, OriginForm, RequestTarget, is_plain_path, plain_path_end};
pub use status_code::{InvalidStatusCode, StatusCode};
pub use userinfo::mask_userinfo;
