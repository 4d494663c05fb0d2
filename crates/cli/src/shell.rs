//! `thruway completions` and `thruway man`: what a shell and its users want to know of the commands.

use std::io::stdout;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Args, CompletionsArgs, ManArgs};
use crate::config::Failure;

/// Prints what completes the commands.
pub(crate) fn completions(args: &CompletionsArgs) -> ExitCode {
    clap_complete::generate(args.shell, &mut Args::command(), "thruway", &mut stdout());
    ExitCode::SUCCESS
}

/// Writes a page for each command.
pub(crate) fn man(args: &ManArgs) -> Result<ExitCode, Failure> {
    let written = std::fs::create_dir_all(&args.directory)
        .and_then(|()| clap_mangen::generate_to(Args::command(), &args.directory));
    match written {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::new(format!("`{}`: {error}", args.directory.display()))),
    }
}
