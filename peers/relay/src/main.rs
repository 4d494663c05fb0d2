//! The relay: moves bytes between clients and a backend and reads no HTTP, the floor under what a gateway
//! costs on a machine.
//!
//! Each client has a connection to the backend of its own. Nothing is parsed, shared or timed.

// what is asked for
mod places;

// what is done
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
