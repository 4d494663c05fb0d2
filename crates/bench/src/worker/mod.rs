//! One thread's part of a load: what its connections share.
//!
//! A worker is polled from outside and knows no runtime: [`Worker::wake_due`] is called when the time that
//! [`Worker::poll_next_wake`] tells has come, [`Worker::lane`] makes the futures of its connections, and all
//! of them end by themselves. Whoever has a clock by hand and transports in memory can drive it as well as a
//! thread with sockets.
//!
//! ```text
//! take a request ──▶ connect, if need be ──▶ write ──▶ read the answer ──▶ record ──▶ (again)
//!   schedule: now, or when one is due       lane, wire                     record
//! ```

// its requests
mod plan;
mod parking;
mod dispatch;
mod accounting;

// a connection
mod connection;
mod wire;
mod streams;
mod lines;
mod lane;

// a thread
mod timer;
mod thread;

pub use connection::{Connect, Handshake, OpenError, Opened};
pub use dispatch::Worker;
pub use plan::{Manner, Share};
pub use thread::{LoadTls, WorkerUse};
pub(crate) use thread::{ThreadPlan, WorkerThread, thread_use};
