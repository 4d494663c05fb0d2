//! Servers under test, in child processes and in this process. The system chooses their ports.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use thruway_server::RunningServer;

use super::child::{self, Running};
use super::program::find_on_path;
use super::stop::Stop;

/// A running server, `thruway` or another program.
pub(super) struct Server {
    running: Running,
    url: String,
    log: PathBuf,
}

impl Server {
    /// Starts a server, and reads its address from its output.
    pub(super) fn start(command: Command, log: &Path, stop: &Stop) -> anyhow::Result<Self> {
        Self::start_when(command, log, stop, |printed| address(printed).map(str::to_owned))
    }

    /// Starts a server with the HTTP address `listens_at`, and waits until it accepts connections.
    pub(super) fn start_at(
        listens_at: SocketAddr,
        command: Command,
        log: &Path,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let url = |_: &str| TcpStream::connect(listens_at).ok().map(|_| format!("http://{listens_at}"));
        Self::start_when(command, log, stop, url)
    }

    /// Starts `redis-server` at `listens_at`.
    pub(super) fn redis(listens_at: SocketAddr, directory: &Path, stop: &Stop) -> anyhow::Result<Self> {
        let redis = find_on_path("redis-server").context(
            "`redis-server` is missing\n\nhint: install it, as with `apt-get install redis-server`",
        )?;
        let mut command = Command::new(redis);
        command.args(["--bind", "127.0.0.1", "--save", "", "--port", &listens_at.port().to_string()]);
        Self::start_at(listens_at, command, &directory.join("redis.log"), stop)
    }

    fn start_when(
        command: Command,
        log: &Path,
        stop: &Stop,
        url_when_ready: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        let mut running = Running::start(command, log)?;
        let url = stop.wait("a server to listen", START_LIMIT, || {
            let printed = child::text_of(log)?;
            if let Some(status) = running.ended()? {
                bail!("the server ended with {status}\n{}", child::tail(&printed));
            }
            Ok(url_when_ready(&printed))
        })?;
        Ok(Self { running, url, log: log.to_owned() })
    }

    /// Writes a config to `file`, and starts `thruway serve` with it. The server writes its log to a file
    /// beside `file`.
    pub(super) fn serve(program: &Path, config: &str, file: &Path, stop: &Stop) -> anyhow::Result<Self> {
        fs::write(file, config)?;
        let mut command = Command::new(program);
        command.arg("serve").arg(file);
        Self::start(command, &file.with_extension("log"), stop)
    }

    /// Returns the URL of the server, without a slash at the end.
    pub(super) fn url(&self) -> String {
        self.url.clone()
    }

    /// Returns `IP:PORT`.
    pub(super) fn address(&self) -> &str {
        without_scheme(&self.url)
    }

    /// Returns the port.
    pub(super) fn port(&self) -> &str {
        self.url.rsplit(':').next().unwrap_or_default()
    }

    pub(super) fn id(&self) -> u32 {
        self.running.id()
    }

    /// Sends SIGTERM. Fails unless the server ends in time, with status 0 and without a panic.
    pub(super) fn end(mut self, stop: &Stop) -> anyhow::Result<String> {
        self.running.terminate();
        let status = self.running.wait(END_LIMIT, stop)?;
        let printed = child::text_of(&self.log)?;
        let is_good = status.success() && !printed.contains("panicked at");
        ensure!(is_good, "the server ended with {status}\n{}", child::tail(&printed));
        Ok("the server ended with status 0 after SIGTERM".to_owned())
    }
}

/// A server in this process. Dropping this value ends the server.
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

/// Returns addresses with free ports, for programs that need an address in their arguments or config.
pub(super) fn free_addresses<const COUNT: usize>() -> anyhow::Result<[SocketAddr; COUNT]> {
    let listeners = (0..COUNT).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
    let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
    addresses.try_into().ok().context("the number of listeners is COUNT")
}

/// Returns the first address in the output of a server, if its line is complete.
fn address(printed: &str) -> Option<&str> {
    let lines = printed.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    let mut addresses = lines.filter_map(|line| line.strip_prefix("listening on "));
    addresses.find(|address| address.starts_with("http"))
}

const START_LIMIT: Duration = Duration::from_secs(20);
const END_LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn address_is_read_only_from_a_complete_line() {
        assert_eq!(address("listening on http://127.0.0.1:80"), None);
        assert_eq!(address("listening on https://127.0.0.1:443\n"), Some("https://127.0.0.1:443"));
        assert_eq!(address("a\nlistening on http://127.0.0.1:8080\nb"), Some("http://127.0.0.1:8080"));
    }
}
