//! A server under test: started on a free loopback port and the first core, ended when dropped.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use tempfile::TempDir;

use super::prepare::Prepared;
use crate::child::{self, Running};
use crate::stop::Stop;

/// The core of the load generator.
pub(super) const CLIENT_CORE: u32 = 1;

/// The core of the server under test; the load generator has [`CLIENT_CORE`].
pub(super) const SERVER_CORE: u32 = 0;

/// How long a server may take to listen.
const START: Duration = Duration::from_secs(10);

const LOG: &str = "server.log";

/// A running server with a directory of its own.
pub(super) struct Server {
    // Dropped in this order: the directory goes when nobody uses it any more.
    running: Running,
    directory: TempDir,
    address: SocketAddr,
}

impl Server {
    /// Starts a server on its core and waits until it accepts connections.
    ///
    /// # Errors
    /// When it cannot be started, ends at once, or does not listen in time.
    pub(super) fn start(prepared: &Prepared, stop: &Stop) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("thruway-bench-").tempdir()?;
        let address = free_address()?;
        let command = command(prepared, address)?;
        let running = Running::start(command, &directory.path().join(LOG))?;
        let mut server = Self { running, directory, address };
        let listening = stop.wait("the server to listen", START, || server.connected());
        listening.map_err(|error| server.blame(&error))?;
        Ok(server)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn id(&self) -> u32 {
        self.running.id()
    }

    /// Adds the last lines of what the server printed to an error that may be its fault.
    pub(super) fn blame(&self, error: &anyhow::Error) -> anyhow::Error {
        let printed = fs::read_to_string(self.directory.path().join(LOG)).unwrap_or_default();
        match child::tail(&printed) {
            tail if tail.is_empty() => anyhow!("{error:#}"),
            tail => anyhow!("{error:#}\nthe server printed\n{tail}"),
        }
    }

    /// Something once it accepts a connection.
    fn connected(&mut self) -> anyhow::Result<Option<()>> {
        if let Some(status) = self.running.ended()? {
            bail!("the server ended with {status}");
        }
        Ok(TcpStream::connect(self.address).ok().map(drop))
    }
}

/// Asks the kernel for a port that nobody has.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// The command that serves the standard input and output.
///
/// # Errors
/// The server cannot.
pub(super) fn stdio_command(prepared: &Prepared) -> anyhow::Result<Command> {
    let arguments = prepared.peer.stdio.context("the server has no part in stdio")?;
    let bench = prepared.bench_directory.to_str().context("the repository's path is not UTF-8")?;
    let mut command = child::pinned(&SERVER_CORE.to_string(), &prepared.program);
    command.args(arguments.iter().map(|argument| argument.replace("{bench}", bench)));
    Ok(command)
}

fn command(prepared: &Prepared, address: SocketAddr) -> anyhow::Result<Command> {
    let bench = prepared.bench_directory.to_str().context("the repository's path is not UTF-8")?;
    let places = [
        ("{address}", address.to_string()),
        ("{host}", address.ip().to_string()),
        ("{port}", address.port().to_string()),
        ("{bench}", bench.to_owned()),
    ];
    let fill = |template: &str| {
        places.iter().fold(template.to_owned(), |text, (place, value)| text.replace(place, value))
    };
    let mut command = child::pinned(&SERVER_CORE.to_string(), &prepared.program);
    command.args(prepared.peer.arguments.iter().map(|argument| fill(argument)));
    Ok(command)
}
