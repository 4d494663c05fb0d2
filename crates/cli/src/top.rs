//! `thruway top` and `thruway fleet`: the state of running gateways.

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
    #[command(flatten)]
    admin: AdminArgs,
    /// Print the overview once, and exit
    #[arg(long)]
    once: bool,
}

/// An admin listener, and the access to it.
#[derive(clap::Args)]
struct AdminArgs {
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
}

impl AdminArgs {
    fn access(&self) -> Result<TopAccess, Failure> {
        let access = TopAccess { roots: self.roots.clone(), ..TopAccess::default() };
        self.token_file.iter().try_fold(access, TopAccess::token_file)
    }
}

/// Work with the replicas of a fleet
#[derive(clap::Args)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(clap::Subcommand)]
enum FleetCommand {
    /// Show the replicas of a fleet
    ///
    /// The command prints the list of one replica: names, addresses, states and sessions of all replicas. The gateway
    /// needs `[admin]` in its config.
    Status(AdminArgs),
}

/// Prints the replicas.
pub(crate) fn fleet(args: &FleetArgs) -> Result<ExitCode, Failure> {
    let FleetCommand::Status(admin) = &args.command;
    thruway_daemon::fleet_status(&admin.url, &admin.access()?, &mut stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the overview.
pub(crate) fn run(args: &TopArgs) -> Result<ExitCode, Failure> {
    let options = TopOptions { once: args.once, is_terminal: stdout().is_terminal(), columns };
    thruway_daemon::top(&args.admin.url, &args.admin.access()?, options, &mut stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the width of the terminal. Without a terminal, lines may have any length.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(stdout());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(usize::MAX)
}
