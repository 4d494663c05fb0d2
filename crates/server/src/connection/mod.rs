//! One connection, from the first octet to the last.
//!
//! ```text
//!            ┌───────────────────── a turn ─────────────────────┐
//!  client ──▶│ input: read, parse ─▶ handler ─▶ answers: in order│──▶ output: one write for all ──▶ client
//!            └───────────────────────────────────────────────────┘
//! ```
//! A connection is a future. Each time it is polled it takes turns until nothing moves any more: it reads
//! into the buffer that all connections of the worker share, answers all that is in it, and writes the
//! answers together. What remains is copied out, so that a connection that waits owns no buffer. The rules of
//! HTTP/1.1 are in `thruway-http1`; here is only what needs a clock, a socket and handlers.

// shared by the connections of a worker
mod origin_fields;
mod service;
mod log;

// requests in
mod incoming;
mod input;

// answers out
mod exchange;
mod answers;
mod streaming;
mod output;

// one connection, from its first byte to its end
mod ending;
mod timers;
mod http1;
mod driver;

// what connections of other versions do as these
pub(crate) use answers::settle;
pub use driver::ConnectionDriver;
pub(crate) use exchange::{panicked, poll_later};
pub(crate) use incoming::IncomingContent;
pub(crate) use input::{misdirected, too_many_connections};
pub(crate) use log::{Log, Logged, Outcome};
pub(crate) use origin_fields::OriginFields;
pub(crate) use service::Service;
pub(crate) use streaming::{is_client_fault, log_failure, poll_meanwhile, poll_piece};
pub(crate) use timers::OVER_LIMIT_PATIENCE;
