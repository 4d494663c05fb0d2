//! `thruway mcp serve`.

use std::process::ExitCode;

use thruway_mcp_sdk::McpServerOptions;
use thruway_server::{ListenAddr, Router, Server, ServerError, TerminationSignals, raise_descriptor_limit};

use super::demo;
use super::routes::{PATH, SSE_PATH, mount};
use crate::args::{McpServeArgs, McpServerLimits};
use crate::config::{Failure, parse_listeners};
use crate::serve::print_addresses;

/// Serves the demo server, over stdio or HTTP.
pub(crate) fn run(args: &McpServeArgs) -> Result<ExitCode, Failure> {
    let options = server_options(&args.limits);
    if args.stdio {
        return match demo::server(options).serve_stdio() {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(Failure::new(format!("cannot serve the standard input and output: {error}"))),
        };
    }
    raise_descriptor_limit();
    let signals = TerminationSignals::take_over().map_err(ServerError::from)?;
    let mut server = Server::new(mount(Router::new(), &args.allow_host, options));
    for address in listeners(args)? {
        server = server.listen_on(address);
    }
    if let Some(workers) = args.workers {
        server = server.workers(workers.into());
    }
    let server = server.start()?;
    print_addresses(&server);
    tracing::info!("the MCP endpoint is at `{PATH}`, and for clients of HTTP+SSE at `{SSE_PATH}`");
    let loads = server.run_until(signals);
    let is_clean = loads.iter().all(|load| load.connections == 0);
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The options that `limits` set, with defaults for the others.
pub(super) fn server_options(limits: &McpServerLimits) -> McpServerOptions {
    let count = |count| usize::try_from(count).unwrap_or(usize::MAX);
    McpServerOptions {
        message_bytes_max: limits.message_max,
        sessions_max: count(limits.sessions_max),
        sessions_per_address_max: count(limits.sessions_per_address_max),
        ..McpServerOptions::default()
    }
}

fn listeners(args: &McpServeArgs) -> Result<Vec<ListenAddr>, Failure> {
    if args.listen.is_empty() {
        parse_listeners(&[DEFAULT_ADDRESS.to_owned()])
    } else {
        parse_listeners(&args.listen)
    }
}

const DEFAULT_ADDRESS: &str = "127.0.0.1:8080";
