//! Octets from one socket to another by `splice`: the kernel moves them through a pipe, and nobody copies
//! them.
//!
//! ```text
//!  socket ──Transport::poll_fill──▶ Pipe ──Transport::poll_splice──▶ socket        Flow does both, to the end
//! ```
//! A pipe is filled only when it is empty, so that nobody ever has to wait for it: what is waited for is a
//! socket. Where the kernel refuses to splice, a pipe carries octets in a buffer instead, and no more pipes
//! are given out.

mod pool;
mod pipe;
mod flow;

#[cfg(test)]
mod tests;

pub use flow::Flow;
pub(crate) use pipe::COPY_BYTES;
pub use pipe::Pipe;
pub(crate) use pool::PipePool;
