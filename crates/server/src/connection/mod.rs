//! One connection, from its first to its last byte.
//!
//! ```text
//!            ┌───────────────── one iteration ──────────────────┐
//!  client ──▶│ input: read, parse ─▶ handler ─▶ answers: in order│──▶ output: one write for all ──▶ client
//!            └───────────────────────────────────────────────────┘
//! ```
//! A connection is a future. Each poll repeats three steps until no progress is possible. It reads into a
//! buffer that all connections of the worker share. It handles the requests in the buffer. It writes their
//! responses together. At the end of a poll, the connection copies only unparsed and unwritten bytes out of
//! the shared buffers. So an idle connection owns no buffer. `thruway-http1` implements the rules of
//! HTTP/1.1. This module contains the parts that need a clock, a socket and handlers.

// shared by the connections of a worker
mod origin_fields;
mod service;
mod log;
mod known_fields;
mod trace_spans;
mod worker_tracing;
mod mcp_spans;

// requests
mod incoming;
mod input;

// responses
mod exchange;
mod answers;
mod streaming;
mod output;

// state and end of a connection
mod ending;
mod timers;
mod http1;
mod driver;

// shared with HTTP/2
pub(crate) use answers::settle;
pub use driver::ConnectionDriver;
pub(crate) use exchange::{panicked, poll_later};
pub(crate) use incoming::IncomingContent;
pub(crate) use input::{misdirected, too_many_connections};
pub(crate) use log::{Log, Logged, Outcome};
pub(crate) use origin_fields::OriginFields;
pub(crate) use service::{Recording, Service};
pub(crate) use streaming::{is_client_fault, log_failure, poll_meanwhile, poll_piece};
pub(crate) use timers::OVER_LIMIT_TIMEOUT_MAX;
pub(crate) use worker_tracing::WorkerTracing;
