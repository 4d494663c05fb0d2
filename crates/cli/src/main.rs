//! The command `thruway`.

mod args;
mod check;
mod config;
mod demo;
mod logging;
mod routes;
mod serve;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

fn main() -> ExitCode {
    let args = Args::parse();
    logging::start();
    let outcome = match args.command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
    };
    outcome.unwrap_or_else(|failure| {
        eprint!("{failure}");
        ExitCode::from(EXIT_UNUSABLE)
    })
}

/// The arguments, the config or an address cannot be used; clap's exit code for arguments is the same.
const EXIT_UNUSABLE: u8 = 2;
