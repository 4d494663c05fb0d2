//! Starts the server. By default, it serves one client over the standard input and output. With
//! `--http ADDRESS`, it serves clients over HTTP at the path `/mcp`.

mod server;

use std::env;
use std::error::Error;

use thruway_server::{Router, Server};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let server = server::server();
    match &arguments[..] {
        [] => server.serve_stdio()?,
        [option, address] if option == "--http" => {
            Server::new(Router::new().any("/mcp", server.endpoint())).listen(address)?.run()?;
        }
        _ => return Err("expected no arguments, or `--http ADDRESS`".into()),
    }
    Ok(())
}
