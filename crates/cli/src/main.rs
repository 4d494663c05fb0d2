//! The command `thruway`.

// what is asked for
mod args;
mod headers;
mod config;
mod logging;

// what is done
mod check;
mod shell;
mod serve;
mod mcp;
mod bench;

use std::io::{Write, stderr};
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use config::Failure;

fn main() -> ExitCode {
    let outcome = run(Args::parse());
    logging::finish();
    outcome.unwrap_or_else(|failure| {
        // Where nobody reads it, nobody misses it.
        let _ = write!(stderr(), "{failure}");
        ExitCode::from(EXIT_UNUSABLE)
    })
}

fn run(args: Args) -> Result<ExitCode, Failure> {
    logging::start()?;
    match args.command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Completions(args) => Ok(shell::completions(&args)),
        Command::Man(args) => shell::man(&args),
        Command::Mcp(command) => mcp::run(&command),
        Command::Bench(command) => bench::run(&command),
    }
}

/// The arguments, the config or an address cannot be used; clap's exit code for arguments is the same.
const EXIT_UNUSABLE: u8 = 2;
