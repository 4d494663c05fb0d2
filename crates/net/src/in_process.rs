//! Connections between a client and a server of the same process.

use tokio::io::DuplexStream;

/// A server that a client of the same process can connect to, without a port.
pub trait InProcessServer {
    /// Serves the client at the other end of `pipe` in a task of its own, until the client closes the pipe.
    ///
    /// # Panics
    /// The caller is outside of a tokio runtime.
    fn serve_pipe(&self, pipe: DuplexStream);
}

/// Bytes that wait in each direction of a pipe, as many as in a pipe of Linux.
pub const PIPE_BYTES: usize = 64 << 10;
