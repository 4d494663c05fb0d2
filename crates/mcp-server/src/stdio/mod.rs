//! The transport over standard input and output, for servers that clients start as child processes. Each line
//! is one message. The transport also works over Unix domain sockets and pipes in memory.

mod standard_streams;
mod serve;

use std::io;

use thruway_net::{InProcessServer, PIPE_BYTES};
use tokio::io::DuplexStream;
use tokio::net::UnixStream;

use crate::in_memory::LocalClient;
use crate::server::McpServer;

use serve::serve;
use standard_streams::{Input, Output};

impl McpServer {
    /// Serves one client over standard input and output. Returns after the client has closed the input and
    /// the server has answered all requests. Blocks the current thread, and creates its own tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the runtime cannot be created, or if reading from the client or writing to the
    /// client fails.
    ///
    /// # Panics
    /// Panics if the current thread is already in a tokio runtime, for example in a `main` with
    /// `#[tokio::main]`.
    pub fn serve_stdio(&self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async { serve(self.clone(), Input::stdin()?, Output::stdout()?).await })
    }

    /// Serves one client over standard input and output in the current tokio runtime, without blocking the
    /// thread.
    ///
    /// # Errors
    /// Returns an error if reading from the client or writing to the client fails.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the future cancels all requests of the client.
    pub async fn serve_standard_streams(&self) -> io::Result<()> {
        serve(self.clone(), Input::stdin()?, Output::stdout()?).await
    }

    /// Serves one client over a Unix domain socket. Each line is one message. The file permissions of the
    /// socket decide which clients can connect.
    ///
    /// # Errors
    /// Returns an error if reading from the client or writing to the client fails.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the future cancels all requests of the client.
    pub async fn serve_unix_stream(&self, stream: UnixStream) -> io::Result<()> {
        let (input, output) = tokio::io::split(stream);
        serve(self.clone(), Input::Socket(input), Output::Socket(output)).await
    }

    /// Returns a client in this process, which calls this server without a network port.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub fn connect(&self) -> LocalClient {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        self.serve_pipe(far);
        LocalClient::on_pipe(near)
    }
}

impl InProcessServer for McpServer {
    fn serve_pipe(&self, pipe: DuplexStream) {
        let (input, output) = tokio::io::split(pipe);
        let server = self.clone();
        tokio::spawn(async move { serve(server, Input::Memory(input), Output::Memory(output)).await });
    }
}
