//! Moves bytes from one socket to another with `splice`: the kernel moves them through a pipe without a copy.
//!
//! ```text
//!  socket ──Transport::poll_fill──▶ Pipe ──Transport::poll_splice──▶ socket        Flow does both, to the end
//! ```
//! A pipe is filled only when it is empty. So a task never waits for a pipe, only for a socket. If the kernel
//! refuses to splice, a pipe carries bytes in a buffer instead, and the pool gives out no more pipes.

mod pool;
mod pipe;
mod flow;

#[cfg(test)]
mod tests;

pub use flow::Flow;
pub(crate) use pipe::COPY_BYTES;
pub use pipe::Pipe;
pub(crate) use pool::PipePool;
