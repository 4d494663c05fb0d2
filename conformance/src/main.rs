//! Server that the official MCP conformance suite tests. It has only the features that the scenarios need.
//!
//! The server uses only the public API of the SDK. `cargo xtask conformance` runs the suite.
#![forbid(unsafe_code)]

// features of the server
mod tools;
mod resources;
mod prompts;

// shared samples
mod samples;

use std::process::ExitCode;

use clap::Parser;
use thruway_mcp_sdk::schema::Implementation;
use thruway_mcp_sdk::{McpServer, McpServerOptions};
use thruway_server::{ListenAddr, Router, Server, ServerError, TerminationSignals};

#[derive(Parser)]
#[command(about = "Server that the official MCP conformance suite tests")]
struct Arguments {
    /// Address to listen on
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
    let server = tools::register(server);
    let server = resources::register(server);
    prompts::register(server)
}
