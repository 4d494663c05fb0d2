//! Standard input and output: one message a line, for servers that clients start themselves. The same for any pair of
//! streams, such as a connection of a Unix domain socket.

mod connection;
mod input;
mod lines;
mod output;

use std::io;

use crate::server::McpServer;

impl McpServer {
    /// Serves the client at the other end of the standard input and output, until it closes the input and what it has asked
    /// for is answered.
    ///
    /// # Errors
    /// The system refuses a reactor, or the client does not read any more.
    pub fn serve_stdio(&self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let input = input::Input::stdin()?;
            let output = output::Output::stdout()?;
            connection::serve(self.clone(), input, output).await
        })
    }
}
