//! A server that is measured: started on a free port and a core, in a directory of its own, ended when
//! dropped.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tempfile::TempDir;
use thruway_bench::{StartError, StartedServer};

use crate::case::Role;
use crate::certificate::{self, Certificate};
use crate::cores::{Cores, run_on};
use crate::found::Found;
use crate::peers::templates;
use crate::process::Runner;

/// A running server.
pub(crate) struct Server {
    // The fields drop in this order: the directory goes after the processes that use it.
    started: StartedServer,
    directory: TempDir,
    pub(crate) address: SocketAddr,
    /// The address of its admin listener, if its config has one.
    pub(crate) admin: SocketAddr,
}

/// The resources for starting servers.
#[derive(Clone, Copy)]
pub(crate) struct ServerResources<'a> {
    pub(crate) cores: &'a Cores,
    pub(crate) runner: Runner<'a>,
    pub(crate) certificate: &'a Certificate,
    /// The folder `peers` of the repository, if it is known.
    pub(crate) peers: Option<&'a Path>,
}

impl ServerResources<'_> {
    /// Fills in the folders of the repository.
    pub(crate) fn with_folders(self, template: &str) -> String {
        let template = template.replace("{templates}", &templates().display().to_string());
        match self.peers {
            Some(peers) => template.replace("{peers}", &peers.display().to_string()),
            None => template,
        }
    }
}

impl Server {
    /// Starts a server as `role` and waits until it listens. `backend` is the address of the server
    /// behind a gateway.
    ///
    /// Starts it a second time if it ends: another process may have taken one of its ports.
    pub(crate) fn start(
        found: &Found,
        role: Role,
        backend: Option<SocketAddr>,
        ground: ServerResources<'_>,
    ) -> anyhow::Result<Self> {
        match Self::try_to_start(found, role, backend, ground) {
            Err(error) if matches!(error.downcast_ref(), Some(StartError::Ended(..))) => {
                Self::try_to_start(found, role, backend, ground)
            }
            started => started,
        }
    }

    fn try_to_start(
        found: &Found,
        role: Role,
        backend: Option<SocketAddr>,
        ground: ServerResources<'_>,
    ) -> anyhow::Result<Self> {
        let setup = found.peer.setup(role).context("it cannot be that")?;
        let directory = tempfile::Builder::new().prefix("thruway-suite-").tempdir()?;
        let (address, admin) = (free_address()?, free_address()?);
        let fill = |template: &str| {
            let template = ground.with_folders(template).replace("{admin}", &admin.to_string());
            filled(&template, directory.path(), address, backend)
        };
        if let Some(template) = &setup.config {
            fs::write(directory.path().join(CONFIG), fill(template))?;
            write_named_files(template, directory.path(), ground.certificate)?;
        }
        let mut command = Command::new(&found.program);
        command.args(setup.arguments.iter().map(|argument| fill(argument)));
        command.stderr(File::create(directory.path().join(PRINTED))?).env("THRUWAY_LOG", "warn");
        let is_backend = matches!(role, Role::Backend | Role::ClosingBackend);
        run_on(if is_backend { &ground.cores.backend } else { &ground.cores.server });
        let started = StartedServer::of(&mut command, &found.peer.name, ground.runner.groups, GRACE);
        run_on(&ground.cores.load);
        let mut server = Self { started: started?, directory, address, admin };
        let ready = server.started.wait_until_ready(&[address.into()], ground.runner.stop);
        ready.map_err(|error| server.with_output(error.into()))?;
        Ok(server)
    }

    pub(crate) fn id(&self) -> u32 {
        self.started.id()
    }

    /// Returns the path of its config.
    pub(crate) fn config(&self) -> PathBuf {
        self.directory.path().join(CONFIG)
    }

    /// Returns the reason for its end, if it has ended.
    pub(crate) fn death(&mut self) -> Option<anyhow::Error> {
        let status = self.started.status()?;
        Some(self.with_output(anyhow!("it has ended: {status}")))
    }

    /// Adds the end of its output to an error that may be its fault.
    pub(crate) fn with_output(&self, error: anyhow::Error) -> anyhow::Error {
        let printed = fs::read(self.directory.path().join(PRINTED)).unwrap_or_default();
        // The report does not name directories of one run.
        let directory = self.directory.path().to_string_lossy();
        let printed = String::from_utf8_lossy(&printed).replace(&*directory, "DIRECTORY");
        let lines: Vec<_> = printed.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        match &lines[lines.len().saturating_sub(TAIL_LINES)..] {
            [] => error,
            tail => error.context(format!("it printed `{}`", tail.join(" / ").escape_debug())),
        }
    }
}

fn filled(template: &str, directory: &Path, address: SocketAddr, backend: Option<SocketAddr>) -> String {
    let path = |name: &str| directory.join(name).display().to_string();
    let places = [
        ("{address}", address.to_string()),
        ("{host}", address.ip().to_string()),
        ("{port}", address.port().to_string()),
        ("{directory}", directory.display().to_string()),
        ("{content}", path(CONTENT)),
        ("{config}", path(CONFIG)),
        ("{certificate}", path(certificate::CERTIFICATE)),
        ("{key}", path(certificate::KEY)),
        ("{certificate_and_key}", path(certificate::BOTH)),
        ("{backend}", backend.map_or_else(String::new, |backend| backend.to_string())),
        ("{backend_port}", backend.map_or_else(String::new, |backend| backend.port().to_string())),
    ];
    places.iter().fold(template.to_owned(), |text, (place, value)| text.replace(place, value))
}

/// Writes the files that the server serves, and the certificate.
fn write_named_files(template: &str, directory: &Path, certificate: &Certificate) -> anyhow::Result<()> {
    if template.contains("{certificate") {
        certificate.write(directory)?;
    }
    if !template.contains("{content}") {
        return Ok(());
    }
    let content = directory.join(CONTENT);
    fs::create_dir(&content)?;
    fs::write(content.join("plaintext"), "Hello, World!")?;
    fs::write(content.join("ok"), "ok")?;
    for bytes in DOWNLOADS {
        fs::write(content.join(bytes.to_string()), vec![b'x'; bytes])?;
    }
    Ok(())
}

/// Asks the kernel for a free port.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// The lengths that are asked for.
const DOWNLOADS: [usize; 2] = [4096, 1 << 20];

const CONFIG: &str = "config";
const CONTENT: &str = "content";
const PRINTED: &str = "printed";
const TAIL_LINES: usize = 4;

/// They have nothing to finish.
const GRACE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::PEERS;

    #[test]
    fn every_place_in_templates_and_arguments_is_filled_in() {
        let address = SocketAddr::from(([127, 0, 0, 1], 81));
        for setup in PEERS.iter().flat_map(|peer| peer.setups.values()) {
            for template in setup.arguments.iter().map(String::as_str).chain(setup.config.as_deref()) {
                let text = filled(template, Path::new("dir"), address, Some(address));
                let places = "address host port directory content config backend backend_port bench \
                              certificate key certificate_and_key";
                for place in places.split_whitespace() {
                    assert!(!text.contains(&format!("{{{place}}}")), "{place}: {text}");
                }
            }
        }
    }
}
