//! `thruway top`.

use std::io::{IsTerminal, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use thruway_daemon::{TopAccess, TopOptions};

use crate::config::Failure;

/// Show the traffic and the servers of a running gateway
///
/// The command prints the overview of the dashboard each second: rates, latencies, CPU and memory of the last
/// 15 minutes, and the state of each server. The gateway needs `[admin]` in its config.
#[derive(clap::Args)]
pub(crate) struct TopArgs {
    /// URL of the admin listener, such as `http://127.0.0.1:9900`, or `unix:PATH`
    url: String,
    /// File with the token of a user of `[admin.authentication]`
    ///
    /// The file contains only the token. The command sends the token in `Authorization: Bearer`. A user with
    /// the role `read` is enough.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// PEM file with the root certificates to trust [default: the roots of the system]
    ///
    /// The certificate of the admin listener must be from one of these roots.
    #[arg(long, value_name = "FILE")]
    roots: Option<PathBuf>,
    /// Print the overview once, and exit
    #[arg(long)]
    once: bool,
}

/// Prints the overview.
pub(crate) fn run(args: &TopArgs) -> Result<ExitCode, Failure> {
    let options = TopOptions { once: args.once, is_terminal: stdout().is_terminal(), columns };
    let access = TopAccess { roots: args.roots.clone(), ..TopAccess::default() };
    let access = args.token_file.iter().try_fold(access, TopAccess::token_file)?;
    thruway_daemon::top(&args.url, &access, options, &mut stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the width of the terminal. Without a terminal, lines may have any length.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(stdout());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(usize::MAX)
}
