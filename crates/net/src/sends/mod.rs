//! Collects the data that the connections of one worker send. Passes the collected data to the kernel in
//! batches.
//!
//! ```text
//! Stream::poll_write ──▶ batch ──(all ready tasks have run, or the batch is full)──▶ one system call
//!                          │ the kernel accepts only a part
//!                          └──▶ a new task sends the remaining bytes; until then, the stream accepts no more
//! ```
//! If clients or upstream servers run on the same core as a worker, each send can wake a client or server,
//! and the kernel may then preempt the worker. Batches reduce the number of such interruptions, because a
//! batch needs only one system call. A stream copies its bytes into the batch, so the kernel reads only the
//! memory of the batch. Without `io_uring`, streams write directly to their sockets.

mod batch;
mod outbox;
mod ring;
#[cfg(test)]
mod tests;

pub(crate) use batch::{begin, end, poll_all_sent, queue};
pub(crate) use outbox::{Outbox, SendState};
