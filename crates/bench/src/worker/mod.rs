//! The part of a load that runs on one thread, with all its connections.
//!
//! A worker does not depend on an async runtime. The caller calls [`Worker::wake_due`] at the time that
//! [`Worker::poll_next_wake`] returns. The caller also polls the futures of [`Worker::run_slot`], which
//! complete at the end of the load. A test can drive a worker with a manual clock and transports in memory.
//!
//! ```text
//! take a request ──▶ connect, if necessary ──▶ write ──▶ read the answer ──▶ record ──▶ (again)
//!   schedule: now, or when one is due       slot, wire                     record
//! ```

// its requests
mod plan;
mod waiting_connections;
mod inactive_connections;
mod dispatch;
mod accounting;

// a connection
mod connection;
mod wire;
mod streams;
mod lines;
mod connection_slot;

// a virtual user of a scenario
mod user_connection;
mod user;

// a thread
mod timer;
mod thread;

pub use connection::{Connect, Handshake, OpenError, Opened};
pub use dispatch::Worker;
pub use plan::{ConnectionOptions, Share};
pub use thread::{LoadTls, WorkerUse};
pub(crate) use thread::{ThreadPlan, WorkerThread, thread_use};
