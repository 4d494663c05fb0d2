//! `thruway top`.

use std::io::{IsTerminal, stdout};
use std::process::ExitCode;

use thruway_daemon::TopOptions;

use crate::config::Failure;

/// Show the traffic and the servers of a running gateway
///
/// The command prints the overview of the dashboard each second: rates, latencies, CPU and memory of the last
/// 15 minutes, and the state of each server. The gateway needs `[admin]` in its config.
#[derive(clap::Args)]
pub(crate) struct TopArgs {
    /// URL of the admin listener, such as `http://127.0.0.1:9900`, or `unix:PATH`
    url: String,
    /// Print the overview once, and exit
    #[arg(long)]
    once: bool,
}

/// Prints the overview.
pub(crate) fn run(args: &TopArgs) -> Result<ExitCode, Failure> {
    let options = TopOptions { once: args.once, is_terminal: stdout().is_terminal(), columns };
    thruway_daemon::top(&args.url, options, &mut stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the width of the terminal. Without a terminal, lines may have any length.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(stdout());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(usize::MAX)
}
