//! Starts a server on a free port, in a temporary directory, pinned to the server core. Dropping a `Server`
//! ends the process.

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
    // Rust drops the fields in this order, so the process ends before its directory is removed.
    started: StartedServer,
    _beside: Option<StartedServer>,
    directory: TempDir,
    pub(crate) address: SocketAddr,
    /// The address for the admin listener, if the config has one.
    pub(crate) admin: SocketAddr,
}

/// The resources for starting a server.
#[derive(Clone, Copy)]
pub(crate) struct ServerResources<'a> {
    pub(crate) cores: &'a Cores,
    pub(crate) runner: Runner<'a>,
    pub(crate) certificate: &'a Certificate,
    /// The folder `peers` of the repository, if known.
    pub(crate) peers: Option<&'a Path>,
}

impl ServerResources<'_> {
    /// Fills in the placeholders for folders of the repository.
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
    /// If the server ends at once, starts it a second time, because another process may have taken its port.
    pub(crate) fn start(
        found: &Found,
        role: Role,
        backend: Option<SocketAddr>,
        resources: ServerResources<'_>,
    ) -> anyhow::Result<Self> {
        match Self::try_to_start(found, role, backend, resources) {
            Err(error) if matches!(error.downcast_ref(), Some(StartError::Ended(..))) => {
                Self::try_to_start(found, role, backend, resources)
            }
            started => started,
        }
    }

    fn try_to_start(
        found: &Found,
        role: Role,
        backend: Option<SocketAddr>,
        resources: ServerResources<'_>,
    ) -> anyhow::Result<Self> {
        let setup = found.peer.setup(role).context("the peer does not support this role")?;
        let directory = tempfile::Builder::new().prefix("thruway-suite-").tempdir()?;
        let (address, admin, collector) = (free_address()?, free_address()?, free_address()?);
        let fill = |template: &str| {
            let template = resources.with_folders(template).replace("{admin}", &admin.to_string());
            let template = template.replace("{collector}", &collector.to_string());
            filled(&template, directory.path(), address, backend)
        };
        if let Some(template) = &setup.config {
            fs::write(directory.path().join(CONFIG), fill(template))?;
            write_named_files(template, directory.path(), resources.certificate)?;
        }
        run_on(&resources.cores.backend);
        let beside = (!setup.beside.is_empty()).then(|| {
            let mut command = Command::new("python3");
            command.args(setup.beside.iter().map(|argument| fill(argument)));
            StartedServer::of(&mut command, "python3", resources.runner.groups, GRACE)
        });
        let mut command = Command::new(&found.program);
        command.args(setup.arguments.iter().map(|argument| fill(argument)));
        command.stderr(File::create(directory.path().join(PRINTED))?).env("THRUWAY_LOG", "warn");
        let is_backend =
            found.peer.on_backend_core || matches!(role, Role::Backend | Role::ClosingBackend | Role::Member);
        run_on(if is_backend { &resources.cores.backend } else { &resources.cores.server });
        let started = StartedServer::of(&mut command, &found.peer.name, resources.runner.groups, GRACE);
        run_on(&resources.cores.load);
        let mut server = Self { started: started?, _beside: beside.transpose()?, directory, address, admin };
        let mut wait = || server.started.wait_until_ready(&[address.into()], resources.runner.stop);
        // A peer that creates a database may need more than the 20 seconds of one call.
        let ready = wait().or_else(|error| match error {
            StartError::NotListening(..) => wait(),
            ended => Err(ended),
        });
        ready.map_err(|error| server.with_output(error.into()))?;
        Ok(server)
    }

    pub(crate) fn id(&self) -> u32 {
        self.started.id()
    }

    /// Returns the path of the config.
    pub(crate) fn config(&self) -> PathBuf {
        self.directory.path().join(CONFIG)
    }

    /// Returns an error if the server has ended.
    pub(crate) fn death(&mut self) -> Option<anyhow::Error> {
        let status = self.started.status()?;
        Some(self.with_output(anyhow!("the program ended with {status}")))
    }

    /// Adds the last lines of the output of the server to an error.
    pub(crate) fn with_output(&self, error: anyhow::Error) -> anyhow::Error {
        let printed = fs::read(self.directory.path().join(PRINTED)).unwrap_or_default();
        // The report must not contain temporary paths.
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
    let placeholders = [
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
    placeholders
        .iter()
        .fold(template.to_owned(), |text, (placeholder, value)| text.replace(placeholder, value))
}

/// Writes the files for static file servers, and the certificate.
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

/// The response lengths in the cases.
const DOWNLOADS: [usize; 2] = [4096, 1 << 20];

const CONFIG: &str = "config";
const CONTENT: &str = "content";
const PRINTED: &str = "printed";
const TAIL_LINES: usize = 4;

/// Time for a server to end. The time is short, because servers have no work to finish.
const GRACE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::PEERS;

    #[test]
    fn all_placeholders_are_filled_in() {
        let address = SocketAddr::from(([127, 0, 0, 1], 81));
        for setup in PEERS.iter().flat_map(|peer| peer.setups.values()) {
            for template in setup.arguments.iter().map(String::as_str).chain(setup.config.as_deref()) {
                let text = filled(template, Path::new("dir"), address, Some(address));
                let placeholders = "address host port directory content config backend backend_port bench \
                              certificate key certificate_and_key";
                for placeholder in placeholders.split_whitespace() {
                    assert!(!text.contains(&format!("{{{placeholder}}}")), "{placeholder}: {text}");
                }
            }
        }
    }
}
