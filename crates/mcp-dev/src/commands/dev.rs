//! `thruway mcp dev`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::dev::{self, DevOptions};
use crate::message::CommandError;

/// Arguments of `thruway mcp dev`.
#[derive(clap::Args)]
#[command(after_help = DEVELOPMENT, override_usage = "thruway mcp dev [OPTIONS] [-- COMMAND [ARG]...]")]
pub struct DevArgs {
    /// Command that starts the server [default: cargo run --quiet]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// URL at which the command serves HTTP. Without a URL, the command uses stdio
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Loopback address of the MCP endpoint and of the inspector
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6280")]
    listen: SocketAddr,
    /// Directory with source files; may be repeated. Hidden files, `target`, `node_modules`, `venv`,
    /// `__pycache__` and `Cargo.lock` do not count
    #[arg(long, value_name = "DIR", default_value = ".")]
    watch: Vec<PathBuf>,
    /// Start a `cargo run` command without building it first. By default, a failed build keeps the previous
    /// version running
    #[arg(long)]
    no_build: bool,
    /// Maximum time from the start of the command until the server responds
    #[arg(long, default_value = "60s", value_parser = humantime::parse_duration)]
    start_timeout: Duration,
}

impl DevArgs {
    pub(super) fn run(&self) -> Result<ExitCode, CommandError> {
        if let Some(url) = self.url.as_ref().filter(|url| !url.starts_with("http://")) {
            return Err(CommandError::new(format!("`{}` does not begin with `http://`", url.escape_debug())));
        }
        let default = || ["cargo", "run", "--quiet"].map(str::to_owned).to_vec();
        dev::run(DevOptions {
            command: if self.command.is_empty() { default() } else { self.command.clone() },
            builds: !self.no_build,
            url: self.url.clone(),
            listen: self.listen,
            watch: self.watch.clone(),
            start_timeout: self.start_timeout,
        })
    }
}

const DEVELOPMENT: &str = "\
Development:
  thruway mcp dev
      Builds and runs the server of the Cargo project in this directory, with stdio
  thruway mcp dev --watch src -- node server.js
      Restarts a server in JavaScript when a file in `src` changes
  thruway mcp dev --url http://127.0.0.1:9000/mcp -- cargo run -- --http 127.0.0.1:9000
      Does the same for a server with HTTP

  Clients connect to the printed MCP endpoint, which stays the same. Calls that run during a restart
  get an error. The printed address of the inspector contains a token: anyone with this address can
  call the tools of the server.

Exit codes:
  0    A signal has ended the command and the server
  2    The arguments are invalid, the address is in use, or a directory cannot be watched
  143  A second signal arrived";
