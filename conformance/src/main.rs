//! The server that the official MCP conformance suite is run against: what the suite's scenarios ask for, and
//! no more.
//!
//! It is written with the public API of the SDK, as anybody would write it. `cargo xtask conformance` runs
//! it.
#![forbid(unsafe_code)]

// what it offers
mod tools;
mod resources;
mod prompts;

// what several of them show
mod samples;

use std::process::ExitCode;

use clap::Parser;
use thruway_mcp_sdk::schema::Implementation;
use thruway_mcp_sdk::{McpServer, McpServerOptions};
use thruway_server::{ListenAddr, Router, Server, ServerError, TerminationSignals};

#[derive(Parser)]
#[command(about = "The server that the official MCP conformance suite is run against")]
struct Arguments {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: ListenAddr,
    /// Answer every request with an event stream
    #[arg(long)]
    event_streams: bool,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<(), ServerError> {
    let signals = TerminationSignals::take_over()?;
    let options =
        McpServerOptions { prefers_event_streams: arguments.event_streams, ..McpServerOptions::default() };
    let router = Router::new().any("/mcp", server(options).endpoint());
    let server = Server::new(router).listen_on(arguments.listen).start()?;
    for address in server.addresses() {
        match address {
            ListenAddr::Tcp(address) => println!("listening on http://{address}"),
            ListenAddr::Unix(_) => println!("listening on {address}"),
        }
    }
    server.run_until(signals);
    Ok(())
}

fn server(options: McpServerOptions) -> McpServer {
    let info = Implementation::new("thruway-conformance", env!("CARGO_PKG_VERSION"));
    let server = McpServer::with_options(info, options);
    let server = tools::offer(server);
    let server = resources::offer(server);
    prompts::offer(server)
}
