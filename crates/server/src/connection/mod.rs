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

pub use driver::ConnectionDriver;
pub(crate) use service::Recording;
pub(crate) use streaming::is_client_fault;
pub(crate) use worker_tracing::WorkerTracing;

#[cfg(feature = "http2")]
pub(crate) use {
    answers::settle,
    exchange::{panicked, poll_later},
    incoming::IncomingContent,
    input::{misdirected, too_many_connections},
    log::{Log, Logged, Outcome},
    origin_fields::OriginFields,
    service::Service,
    streaming::{log_failure, poll_meanwhile, poll_piece},
    timers::OVER_LIMIT_TIMEOUT_MAX,
};
