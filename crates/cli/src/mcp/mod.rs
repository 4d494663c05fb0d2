//! `thruway mcp`.

// servers
mod serve;

// clients
mod client;

// both
mod bridge;
mod connecting;
mod federate;

// access
mod access;

use std::process::ExitCode;

use crate::args::{McpClientCommand, McpCommand};
use crate::config::Failure;

/// Runs a command of `thruway mcp`.
pub(crate) fn run(command: &McpCommand) -> Result<ExitCode, Failure> {
    let (command, args) = match command {
        McpCommand::Serve(args) => return serve::run(args),
        McpCommand::Bridge(args) => return bridge::run(args),
        McpCommand::Federate(args) => return federate::run(args),
        McpCommand::Author(command) => {
            return command.run().map_err(|error| {
                let failure = Failure::new(&error);
                error.hint().into_iter().fold(failure, Failure::with_hint)
            });
        }
        McpCommand::Discover(args) => (McpClientCommand::Discover, args),
        McpCommand::Inspect(args) => (McpClientCommand::Inspect, args),
        McpCommand::Ping(args) => (McpClientCommand::Ping, args),
        McpCommand::Tools(args) => (McpClientCommand::Tools, args),
        McpCommand::Call(args) => (McpClientCommand::Call, args),
        McpCommand::Resources(args) => (McpClientCommand::Resources, args),
        McpCommand::Read(args) => (McpClientCommand::Read, args),
        McpCommand::Prompts(args) => (McpClientCommand::Prompts, args),
        McpCommand::Get(args) => (McpClientCommand::Get, args),
        McpCommand::Complete(args) => (McpClientCommand::Complete, args),
        McpCommand::Listen(args) => (McpClientCommand::Listen, args),
        McpCommand::Tasks(args) => (McpClientCommand::Tasks, args),
    };
    client::run(command, args)
}
