//! `thruway bench`: load for servers, measured.

// what is asked for
mod args;
mod requests;
mod load;

// what is done
mod http;
mod presets;
mod rounds;
mod groups;
mod started;
mod compare;
mod ramp;
mod mcp;
mod suite;

// what is shown
mod interrupt;
mod progress;
mod output;

pub(crate) use args::BenchCommand;

use std::process::ExitCode;

use crate::config::Failure;

/// Does what `command` says.
pub(crate) fn run(command: &BenchCommand) -> Result<ExitCode, Failure> {
    match command {
        BenchCommand::Http(args) => http::run(args),
        BenchCommand::Compare(args) => compare::run(args),
        BenchCommand::Ramp(args) => ramp::run(args),
        BenchCommand::Mcp(args) => mcp::run(args),
        BenchCommand::Suite(args) => suite::run(args),
        BenchCommand::Wrk(args) => presets::run_wrk(args),
        BenchCommand::Ab(args) => presets::run_ab(args),
    }
}

/// A request failed, or a comparison shows a regression.
const EXIT_FAILED: u8 = 1;

/// Ended by a signal: what the shell says of SIGINT.
const EXIT_INTERRUPTED: u8 = 130;
