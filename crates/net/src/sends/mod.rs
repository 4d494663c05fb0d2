//! Batches the sends of one worker.
//!
//! ```text
//! Stream::poll_write ──▶ batch ──(all ready tasks have run, or the batch is full)──▶ one system call
//!                          │ taken only in part
//!                          └──▶ a new task sends the rest, and the stream accepts no more until then
//! ```
//! If a worker shares its core with its peers, each send that wakes a peer can make the kernel preempt the
//! worker. A batch has only one such point. Bytes are copied into the batch, so the kernel borrows no memory
//! beyond a call. Without `io_uring`, streams write directly.

mod batch;
mod outbox;
mod ring;
#[cfg(test)]
mod tests;

pub(crate) use batch::{begin, end, poll_all_sent, queue};
pub(crate) use outbox::{Outbox, SendObstacle};
