//! The relay copies bytes between clients and a backend and reads no HTTP. It is the lower bound for the cost
//! of a gateway on a machine.
//!
//! Each client has its own connection to the backend. The relay parses nothing, shares no connections and has
//! no timeouts.

// Arguments
mod places;

// Relaying
mod sockets;
mod clients;
mod pair;
mod flow;

use std::io;
use std::process::ExitCode;

use places::Places;

fn main() -> ExitCode {
    let places = match Places::parse(std::env::args().skip(1)) {
        Ok(places) => places,
        Err(unusable) => {
            eprintln!("error: {unusable}\n\nhint: {}", places::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(places) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: `{}` cannot be listened at: {error}", places.listen);
            ExitCode::FAILURE
        }
    }
}

fn run(places: Places) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = sockets::listen(places.listen)?;
        println!("{}", listener.local_addr()?);
        clients::serve(&listener, places.backend, clients::most_at_a_time()).await;
        Ok(())
    })
}
