//! Servers under test, on ports that the system chooses: child processes, and servers in this process.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use thruway_server::RunningServer;

use super::child::{self, Running};
use super::program::find_on_path;
use super::stop::Stop;

/// A running server, `thruway` or another that says where it listens as it does.
pub(super) struct Server {
    running: Running,
    url: String,
    log: PathBuf,
}

impl Server {
    /// Starts the server and reads from its output where it listens.
    pub(super) fn start(
        program: &Path,
        arguments: &[impl AsRef<OsStr>],
        log: &Path,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let mut running = Running::start(bound_to_us(program, arguments), log)?;
        let url = stop.wait("the server to say where it listens", LIMIT, || {
            if let Some(status) = running.ended()? {
                bail!("the server ended with {status}\n{}", child::tail(&fs::read_to_string(log)?));
            }
            Ok(address(&fs::read_to_string(log)?).map(str::to_owned))
        })?;
        Ok(Self { running, url, log: log.to_owned() })
    }

    /// Writes a config to `file`, and starts `thruway serve` with it. The log is next to the file.
    pub(super) fn serve(program: &Path, config: &str, file: &Path, stop: &Stop) -> anyhow::Result<Self> {
        fs::write(file, config)?;
        Self::start(program, &[OsStr::new("serve"), file.as_os_str()], &file.with_extension("log"), stop)
    }

    /// Returns its URL, without a slash at the end.
    pub(super) fn url(&self) -> String {
        self.url.clone()
    }

    /// Returns `IP:PORT`.
    pub(super) fn address(&self) -> &str {
        without_scheme(&self.url)
    }

    pub(super) fn id(&self) -> u32 {
        self.running.id()
    }

    /// Asks it to end, and fails unless it does so in time, with status 0 and without having panicked.
    pub(super) fn end(mut self, stop: &Stop) -> anyhow::Result<String> {
        self.running.ask_to_end();
        let status = self.running.wait(LIMIT, stop)?;
        let printed = fs::read_to_string(&self.log)?;
        ensure!(status.success(), "ended with {status}\n{}", child::tail(&printed));
        ensure!(!printed.contains("panicked at"), "panicked\n{}", child::tail(&printed));
        Ok("SIGTERM ended it with status 0".to_owned())
    }
}

/// A server in this process; dropping it ends it.
pub(super) struct OwnServer {
    server: Option<RunningServer>,
    pub(super) url: String,
}

impl OwnServer {
    pub(super) fn new(server: RunningServer, scheme: &str) -> anyhow::Result<Self> {
        let address = server.addresses().first().context("the server has no address")?;
        Ok(Self { url: format!("{scheme}://{address}"), server: Some(server) })
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.drain();
            server.join();
        }
    }
}

/// Returns the address in a URL.
pub(super) fn without_scheme(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, address)| address)
}

/// A command that the kernel asks to end should this process be killed.
fn bound_to_us(program: &Path, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = match find_on_path("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "TERM"]).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.args(arguments);
    command
}

/// The first address in what the server printed, once its line is complete.
fn address(printed: &str) -> Option<&str> {
    let lines = printed.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    let is_http = |address: &&str| address.starts_with("http://") || address.starts_with("https://");
    lines.filter_map(|line| line.strip_prefix("listening on ")).find(is_http)
}

/// To listen, and to end.
const LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn an_address_counts_once_its_line_is_complete() {
        assert_eq!(address("listening on http://127.0.0.1:80"), None);
        assert_eq!(address("listening on https://127.0.0.1:443\n"), Some("https://127.0.0.1:443"));
        assert_eq!(address("a\nlistening on http://127.0.0.1:8080\nb"), Some("http://127.0.0.1:8080"));
    }
}
