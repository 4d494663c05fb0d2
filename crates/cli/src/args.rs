//! What can be typed after `thruway`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use thruway_server::ListenAddr;

/// One fast HTTP engine
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Serve(ServeArgs),
    Check(CheckArgs),
}

/// Serve what a config says, or a demo without one
///
/// Ends at SIGTERM or SIGINT when it has answered what it accepted; at a second signal, at once.
#[derive(clap::Args)]
pub(crate) struct ServeArgs {
    /// What to serve; without it, a demo on 127.0.0.1:8080
    pub(crate) config: Option<PathBuf>,
    /// Listen here instead: `IP:PORT` or `unix:PATH`; may be given several times
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<ListenAddr>,
    /// Worker threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,
}

/// Check a config without serving it
#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    /// The config to check
    pub(crate) config: PathBuf,
}
