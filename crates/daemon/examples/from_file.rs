//! Serves a config file, as `thruway serve` does. `SIGHUP` reloads the file. `SIGTERM` shuts the service down
//! gracefully.
//!
//! ```sh
//! cargo run --release --example from_file -- crates/daemon/examples/serve.toml
//! ```

use std::path::Path;

use thruway_daemon::{Daemon, Failure};

pub(crate) fn start(path: impl AsRef<Path>) -> Result<Daemon, Failure> {
    let daemon = Daemon::from_file(path)?;
    for listener in daemon.listeners() {
        println!("listening on {} ({})", listener.address, listener.protocol);
    }
    Ok(daemon)
}

fn main() {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "gateway.toml".into());
    if let Err(failure) = start(path).and_then(Daemon::run) {
        // Prints each error of the config, with the file, the line and a hint.
        eprintln!("{failure}");
        std::process::exit(1);
    }
}
