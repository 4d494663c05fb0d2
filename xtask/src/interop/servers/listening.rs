//! A server that others wrote, over HTTP.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use anyhow::bail;

use super::super::check::Scene;
use crate::child::{self, Running};

/// A running server; dropping it ends it.
pub(super) struct Listening {
    _running: Running,
    /// `http://IP:PORT`.
    pub(super) url: String,
}

impl Listening {
    /// Starts what `command` makes of a port that nobody has, and waits until it listens.
    ///
    /// # Errors
    /// When it does not.
    pub(super) fn start(scene: &Scene<'_>, command: impl FnOnce(u16) -> Command) -> anyhow::Result<Self> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let log = scene.directory.join("listening.log");
        let mut running = Running::start(command(address.port()), &log)?;
        scene.stop.wait("a server to listen", START, || {
            if let Some(status) = running.ended()? {
                bail!("it ended with {status}\n{}", child::tail(&fs::read_to_string(&log)?));
            }
            Ok(TcpStream::connect(address).ok())
        })?;
        Ok(Self { _running: running, url: format!("http://{address}") })
    }
}

const START: Duration = Duration::from_secs(20);
