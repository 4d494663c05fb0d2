//! Parses and writes HTTP/1.1 messages, for servers and for clients (RFC 9112).
//!
//! The caller owns the buffers. Events borrow from the caller's buffers, so the parser does not copy
//! messages. This crate does no I/O and reads no clock: RFC 9112 has no rules about time, so the caller sets
//! deadlines.
//!
//! This example reads a request, as a server does:
//!
//! ```
//! use thruway_http1::{HeadIndex, Limits, ServerConnection, ServerEvent};
//!
//! let mut connection = ServerConnection::new(Limits::default());
//! let mut index = HeadIndex::with_capacity(16);
//! let input = b"GET /path HTTP/1.1\r\nHost: a.example\r\n\r\n";
//! let (event, used) = connection.handle_input(input, &mut index)?;
//! assert_eq!(event, Some(ServerEvent::Request));
//! let head = index.request_head(&input[..used]);
//! assert_eq!((head.method.as_str(), head.target.path()), ("GET", "/path"));
//! assert_eq!(head.field("host").unwrap(), "a.example");
//! # Ok::<_, thruway_http1::Error>(())
//! ```
#![no_std]

extern crate alloc;

// incoming bytes
mod scan;

// parsing of heads
mod request_line;
mod request_target;
mod status_line;
mod field_section;
mod head_index;

// interpretation of heads
mod body_length;
mod host;
mod request_facts;
mod request_fields;

// message bodies
mod chunked;
mod content;

// connections of servers and clients
mod client_connection;
mod server_connection;

// outgoing bytes
mod prepared_head;
mod write;

mod error;
mod limits;

pub use body_length::{BodyLength, ResponseTo, parse_content_length};
pub use chunked::check_trailer_name;
pub use client_connection::{ClientConnection, ClientEvent};
pub use error::Error;
pub use head_index::HeadIndex;
pub use limits::Limits;
pub use prepared_head::PreparedHead;
pub use request_facts::{RequestFacts, ResponseBody};
pub use request_target::parse_request_target;
pub use server_connection::{ServerConnection, ServerEvent};
pub use write::{
    RequestToWrite, ResponseToWrite, write_chunk, write_chunk_end, write_chunk_start, write_continue,
    write_end_of_request_head, write_field_lines, write_interim_response, write_last_chunk,
    write_request_head, write_request_line, write_response_head,
};
