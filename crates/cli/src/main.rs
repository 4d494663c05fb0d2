//! The command `thruway`.

// arguments
mod args;
mod sizes;
mod logging;

// commands
mod serve;
mod top;
mod mcp;
mod bench;

/// The error type of all commands, and the parsers of listener addresses and headers.
mod config {
    pub(crate) use thruway_daemon::{Failure, parse_headers, parse_listeners};
}

use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Args, Command, CompletionsArgs, ManArgs};
use config::Failure;

fn main() -> ExitCode {
    let outcome = run(Args::parse());
    logging::finish();
    outcome.unwrap_or_else(|failure| {
        // A write error is ignored, because the reader of the standard error may have closed the pipe.
        let _ = write!(stderr(), "{failure}");
        ExitCode::from(EXIT_UNUSABLE)
    })
}

fn run(args: Args) -> Result<ExitCode, Failure> {
    logging::start()?;
    match args.command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => serve::check(&args),
        Command::Top(args) => top::run(&args),
        Command::Fleet(args) => top::fleet(&args),
        Command::Completions(args) => Ok(completions(&args)),
        Command::Man(args) => man(&args),
        Command::Mcp(command) => mcp::run(&command),
        Command::Bench(command) => bench::run(&command),
    }
}

/// Exit code if the arguments or the config are invalid, or if an address cannot be used. The argument parser
/// `clap` uses the same exit code for invalid arguments.
const EXIT_UNUSABLE: u8 = 2;

/// Prints shell completions.
fn completions(args: &CompletionsArgs) -> ExitCode {
    clap_complete::generate(args.shell, &mut Args::command(), "thruway", &mut stdout());
    ExitCode::SUCCESS
}

/// Writes a man page for each command.
fn man(args: &ManArgs) -> Result<ExitCode, Failure> {
    let written = std::fs::create_dir_all(&args.directory)
        .and_then(|()| clap_mangen::generate_to(Args::command(), &args.directory));
    match written {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            Err(Failure::new(format!("cannot write man pages to `{}`: {error}", args.directory.display())))
        }
    }
}
