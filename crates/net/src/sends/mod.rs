//! Collects the data that connections of one worker send, and passes it to the kernel in batches.
//!
//! ```text
//! Stream::poll_write ──▶ batch ──(all ready tasks have run, or the batch is full)──▶ one system call
//!                          │ taken only in part
//!                          └──▶ a new task sends the rest, and the stream accepts no more until then
//! ```
//! If clients or upstream servers run on the same core as a worker, each send can wake one of them, and the
//! kernel may then preempt the worker. With a batch, this happens at most once per batch. The bytes are
//! copied into the batch, so the kernel uses no memory of the streams after a call. Without `io_uring`,
//! streams write directly to their sockets.

mod batch;
mod outbox;
mod ring;
#[cfg(test)]
mod tests;

pub(crate) use batch::{begin, end, poll_all_sent, queue};
pub(crate) use outbox::{Outbox, SendObstacle};
