//! `thruway bench`: measures servers under load.

// arguments
mod args;
mod load;

// output
mod output;

// commands
mod http;
mod scenario;
mod compare;
mod ramp;
mod mcp;

use std::process::ExitCode;

use clap::Subcommand;

use crate::config::Failure;
use args::{AbArgs, CompareArgs, HttpArgs, RampArgs, WrkArgs};
use mcp::McpArgs;
use scenario::ScenarioArgs;

/// Measure servers under load
#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    Http(HttpArgs),
    Scenario(ScenarioArgs),
    Compare(CompareArgs),
    Ramp(RampArgs),
    Mcp(Box<McpArgs>),
    Wrk(WrkArgs),
    Ab(AbArgs),
}

/// Runs a command of `thruway bench`.
pub(crate) fn run(command: &BenchCommand) -> Result<ExitCode, Failure> {
    match command {
        BenchCommand::Http(args) => http::run(args),
        BenchCommand::Scenario(args) => scenario::run(args),
        BenchCommand::Compare(args) => compare::run(args),
        BenchCommand::Ramp(args) => ramp::run(args),
        BenchCommand::Mcp(args) => mcp::run(args),
        BenchCommand::Wrk(args) => http::run_wrk(args),
        BenchCommand::Ab(args) => http::run_ab(args),
    }
}
