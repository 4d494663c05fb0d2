//! Moves bytes from one socket to another with `splice`: the kernel moves the bytes through a pipe without
//! copying them.
//!
//! ```text
//!  socket ──Transport::poll_fill──▶ Pipe ──Transport::poll_splice──▶ socket        Flow does both, to the end
//! ```
//! A pipe is filled only when it is empty. So a task waits only for sockets, never for a pipe. If the kernel
//! refuses to splice, the bytes of the current pipe are copied into a buffer, and the pool returns no more
//! pipes.

mod pool;
mod pipe;
mod flow;

#[cfg(test)]
mod tests;

pub use flow::Flow;
pub(crate) use pipe::COPY_BYTES;
pub use pipe::Pipe;
pub(crate) use pool::PipePool;
