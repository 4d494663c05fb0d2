//! Collects the data that connections of one worker send, and passes it to the kernel in batches.
//!
//! ```text
//! Stream::poll_write ──▶ batch ──(all ready tasks have run, or the batch is full)──▶ one system call
//!                          │ taken only in part
//!                          └──▶ a new task sends the rest, and the stream accepts no more until then
//! ```
//! If clients or upstream servers run on the same core as a worker, each send can wake a client or server,
//! and the kernel may then preempt the worker. Batches reduce the number of such interruptions, because a
//! batch needs only one system call. Bytes are copied into the batch, so the kernel never uses the memory
//! of a stream after a call. Without `io_uring`, streams write directly to their sockets.

mod batch;
mod outbox;
mod ring;
#[cfg(test)]
mod tests;

pub(crate) use batch::{begin, end, poll_all_sent, queue};
pub(crate) use outbox::{Outbox, SendObstacle};
