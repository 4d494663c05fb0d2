//! Sends of one worker that are handed to the kernel together.
//!
//! ```text
//! Stream::poll_write ──▶ batch ──(all that was ready has run, or the batch is full)──▶ one system call
//!                          │ taken only in part
//!                          └──▶ a task of its own sends the rest, and the stream takes no more meanwhile
//! ```
//! Where a worker shares its core with its peers, each send that wakes one is a point at which it may be put
//! aside; a batch of them is one. Octets are copied into the batch, so nothing is lent to the kernel beyond a
//! call. Where there is no `io_uring`, nothing is ever put into a batch, and streams write for themselves.

mod batch;
mod outbox;
mod ring;
#[cfg(test)]
mod tests;

pub(crate) use batch::{begin, end, poll_all_sent, queue};
pub(crate) use outbox::{Ahead, Outbox};
