//! `thruway mcp serve`.

use std::process::ExitCode;

use thruway_demo::mcp;
use thruway_mcp_sdk::McpServerOptions;
use thruway_server::{Router, Server, ServerError, TerminationSignals, WorkerLoad, raise_descriptor_limit};

use super::access::Access;
use crate::args::{McpServeArgs, McpServerLimits};
use crate::config::Failure;

/// Runs the demo MCP server over stdio or HTTP.
pub(crate) fn run(args: &McpServeArgs) -> Result<ExitCode, Failure> {
    let options = server_options(&args.limits);
    if args.stdio {
        return match mcp::server(options).serve_stdio() {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(Failure::new(format!("cannot serve the standard input and output: {error}"))),
        };
    }
    let access = Access::of(&args.access)?;
    let listeners = access.listeners(&args.listen)?;
    raise_descriptor_limit();
    let signals = TerminationSignals::take_over().map_err(ServerError::from)?;
    let endpoint = access.protect(mcp::endpoint(&args.allow_host, options));
    let mut server = Server::new(mcp::mount_endpoint(Router::new(), endpoint));
    if let Some(workers) = args.workers {
        server = server.workers(workers.into());
    }
    Ok(exit_code(&access.start(server, listeners)?.run_until(signals)))
}

/// Returns the exit code for the final loads of the workers. Connections that are still open have failed.
pub(super) fn exit_code(loads: &[WorkerLoad]) -> ExitCode {
    if loads.iter().all(|load| load.connections == 0) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns server options with the limits in `limits` and with defaults for all other options.
pub(super) fn server_options(limits: &McpServerLimits) -> McpServerOptions {
    let count = |count| usize::try_from(count).unwrap_or(usize::MAX);
    McpServerOptions {
        message_bytes_max: limits.message_max,
        in_flight_bytes_max: limits.in_flight_max,
        sessions_max: count(limits.sessions_max),
        sessions_per_address_max: count(limits.sessions_per_address_max),
        sessions_per_principal_max: count(limits.sessions_per_principal_max),
        ..McpServerOptions::default()
    }
}
