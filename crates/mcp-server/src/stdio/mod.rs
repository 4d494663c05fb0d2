//! Standard input and output: one message a line, for servers that clients start themselves. The same for any
//! pair of streams, such as a connection of a Unix domain socket.

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
    /// Serves the client at the other end of the standard input and output, until it closes the input and
    /// what it has asked for is answered. Blocks its thread, and brings a runtime of its own.
    ///
    /// # Errors
    /// The system refuses a reactor, or the client does not read any more.
    ///
    /// # Panics
    /// There is a runtime around already, as in a `main` with `#[tokio::main]`.
    pub fn serve_stdio(&self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async { serve(self.clone(), Input::stdin()?, Output::stdout()?).await })
    }

    /// The same on the runtime that is around, without blocking its thread.
    ///
    /// # Errors
    /// As [`serve_stdio`](Self::serve_stdio).
    ///
    /// # Panics
    /// There is no tokio runtime around.
    ///
    /// # Cancel safety
    /// What the client has asked for is given up when this is dropped.
    pub async fn serve_standard_streams(&self) -> io::Result<()> {
        serve(self.clone(), Input::stdin()?, Output::stdout()?).await
    }

    /// Serves the client at the other end of a Unix domain socket in the same way, one message a line. Who
    /// may connect is decided by the permissions of the socket's path.
    ///
    /// # Errors
    /// The client does not read any more.
    ///
    /// # Panics
    /// There is no tokio runtime around.
    ///
    /// # Cancel safety
    /// What the client has asked for is given up when this is dropped.
    pub async fn serve_unix_stream(&self, stream: UnixStream) -> io::Result<()> {
        let (input, output) = tokio::io::split(stream);
        serve(self.clone(), Input::Socket(input), Output::Socket(output)).await
    }

    /// Returns a client of this server in the same process, without a port.
    ///
    /// # Panics
    /// There is no tokio runtime around.
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
