//! The relay copies bytes between clients and a backend, and does not parse HTTP. It shows the lower bound
//! for the cost of a gateway on a machine.
//!
//! Each client has its own connection to the backend. The relay parses nothing, shares no connections and has
//! no timeouts.

// arguments
mod arguments;

// relaying
mod sockets;
mod clients;
mod pair;
mod flow;

use std::io;
use std::process::ExitCode;

use arguments::Arguments;

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("error: {error}\n\nhint: {}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: cannot listen on `{}`: {error}", arguments.listen);
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = sockets::listen(arguments.listen)?;
        println!("{}", listener.local_addr()?);
        clients::serve(&listener, arguments.backend, clients::clients_max()).await;
        Ok(())
    })
}
