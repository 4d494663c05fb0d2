//! A server that is measured: started on a free port and a core, in a directory of its own, ended when
//! dropped.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::thread::CpuSet;
use tempfile::TempDir;
use thruway_bench::{ProcessGroups, StartedServer, StopFlag};

use crate::case::Role;
use crate::certificate::{self, Certificate};
use crate::cores::{Cores, run_on};
use crate::found::Found;
use crate::peers::{CLOSING_BACKEND, Setup, backend};

/// A running server.
pub(crate) struct Server {
    // The fields drop in this order: the directory goes after the processes that use it.
    started: StartedServer,
    directory: TempDir,
    pub(crate) address: SocketAddr,
    /// The address of its admin listener, if its config has one.
    pub(crate) admin: SocketAddr,
}

/// The reason for a failed start.
struct NotStarted {
    why: String,
    /// `true` if it started, and ended again.
    has_ended: bool,
}

impl From<String> for NotStarted {
    fn from(why: String) -> Self {
        Self { why, has_ended: false }
    }
}

/// The resources for starting servers.
#[derive(Clone, Copy)]
pub(crate) struct ServerResources<'a> {
    pub(crate) cores: &'a Cores,
    pub(crate) groups: &'a ProcessGroups,
    pub(crate) stop: &'a StopFlag,
    pub(crate) certificate: &'a Certificate,
    /// The folder `peers` of the repository, if it is known.
    pub(crate) peers: Option<&'a Path>,
}

impl ServerResources<'_> {
    /// Fills in the folder `peers`.
    pub(crate) fn with_peers(self, template: &str) -> String {
        match self.peers {
            Some(peers) => template.replace("{peers}", &peers.display().to_string()),
            None => template.to_owned(),
        }
    }
}

impl Server {
    /// Starts a server as `role` and waits until it listens. `backend` is what a gateway stands before.
    pub(crate) fn start(
        found: &Found,
        role: Role,
        backend: Option<SocketAddr>,
        ground: ServerResources<'_>,
    ) -> Result<Self, String> {
        let setup = found.peer.setup(role).ok_or("it cannot be that")?;
        Self::start_twice(found, setup, backend, &ground.cores.server, ground)
    }

    /// Starts ours behind gateways, at nine addresses.
    pub(crate) fn start_backend(ours: &Found, ground: ServerResources<'_>) -> Result<Self, String> {
        Self::start_twice(ours, &backend(), None, &ground.cores.backend, ground)
    }

    /// Starts a server, a second time if it ends: another process may have taken one of its ports.
    fn start_twice(
        found: &Found,
        setup: &Setup,
        backend: Option<SocketAddr>,
        cores: &CpuSet,
        ground: ServerResources<'_>,
    ) -> Result<Self, String> {
        let start = || Self::try_to_start(found, setup, backend, cores, ground);
        let started = match start() {
            Err(NotStarted { has_ended: true, .. }) => start(),
            started => started,
        };
        started.map_err(|not_started| not_started.why)
    }

    /// Starts the backend that closes after each response.
    pub(crate) fn start_closing_backend(python: &Path, ground: ServerResources<'_>) -> Result<Self, String> {
        let directory = directory()?;
        let script = directory.path().join("closing.py");
        fs::write(&script, CLOSING_BACKEND).map_err(in_words)?;
        let address = free_address().map_err(in_words)?;
        let mut command = Command::new(python);
        command.arg(script).arg("--listen").arg(address.to_string());
        let started =
            Self::run(command, "closing.py", directory, [address; 2], &ground.cores.backend, ground);
        started.map_err(|not_started| not_started.why)
    }

    fn try_to_start(
        found: &Found,
        setup: &Setup,
        backend: Option<SocketAddr>,
        cores: &CpuSet,
        ground: ServerResources<'_>,
    ) -> Result<Self, NotStarted> {
        let directory = directory()?;
        let (address, admin) = (free_address().map_err(in_words)?, free_address().map_err(in_words)?);
        let fill = |template: &str| {
            let template = ground.with_peers(template).replace("{admin}", &admin.to_string());
            filled(&template, directory.path(), address, backend)
        };
        if let Some(template) = &setup.config {
            fs::write(directory.path().join(CONFIG), fill(template)).map_err(in_words)?;
            write_what_it_names(template, directory.path(), ground.certificate).map_err(in_words)?;
        }
        let mut command = Command::new(&found.program);
        command.args(setup.arguments.iter().map(|argument| fill(argument)));
        Self::run(command, &found.peer.name, directory, [address, admin], cores, ground)
    }

    fn run(
        mut command: Command,
        name: &str,
        directory: TempDir,
        [address, admin]: [SocketAddr; 2],
        cores: &CpuSet,
        ground: ServerResources<'_>,
    ) -> Result<Self, NotStarted> {
        let printed = File::create(directory.path().join(PRINTED)).map_err(in_words)?;
        command.stderr(printed).env("THRUWAY_LOG", "warn");
        run_on(cores);
        let started = StartedServer::of(&mut command, name, ground.groups, GRACE);
        run_on(&ground.cores.load);
        let started = started.map_err(|error| error.to_string())?;
        let mut server = Self { started, directory, address, admin };
        let ready = server.started.wait_until_ready(&[address.into()], ground.stop);
        let why = ready.map_err(|failure| server.with_what_it_printed(&failure.to_string())).err();
        match why {
            Some(why) => Err(NotStarted { why, has_ended: server.started.status().is_some() }),
            None => Ok(server),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.started.id()
    }

    /// Returns the path of its config.
    pub(crate) fn config(&self) -> PathBuf {
        self.directory.path().join(CONFIG)
    }

    /// Returns the reason for its end, if it has ended.
    pub(crate) fn death(&mut self) -> Option<String> {
        let status = self.started.status()?;
        Some(self.with_what_it_printed(&format!("it has ended: {status}")))
    }

    /// Adds the end of what it has printed to what may be its fault.
    pub(crate) fn with_what_it_printed(&self, what: &str) -> String {
        let printed = fs::read(self.directory.path().join(PRINTED)).unwrap_or_default();
        // The report does not name directories of one run.
        let directory = self.directory.path().to_string_lossy();
        with_tail(what, &String::from_utf8_lossy(&printed).replace(&*directory, "DIRECTORY"))
    }
}

/// Returns a message with the last lines of `printed`.
fn with_tail(what: &str, printed: &str) -> String {
    let lines: Vec<_> = printed.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match &lines[lines.len().saturating_sub(TAIL_LINES)..] {
        [] => what.to_owned(),
        tail => format!("{what}; it printed: {}", tail.join(" / ").escape_debug()),
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

fn directory() -> Result<TempDir, String> {
    tempfile::Builder::new().prefix("thruway-suite-").tempdir().map_err(in_words)
}

/// Writes the files that the server serves, and the certificate.
fn write_what_it_names(template: &str, directory: &Path, certificate: &Certificate) -> io::Result<()> {
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
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` wants it")]
fn in_words(error: io::Error) -> String {
    error.to_string()
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
    use crate::peers::{PEERS, Peer};

    #[test]
    fn a_server_that_dies_at_its_start_is_told_with_what_it_printed() {
        let dying = toml::from_str::<Peer>(
            "name = 'shell'\nabout = ''\ninstalled = 'sh'\nversion = 'go'\nhttp = ['-c', 'echo no such option >&2; exit 3']",
        );
        let peer = Box::leak(Box::new(dying.unwrap()));
        let found = Found { peer, program: "/bin/sh".into(), version: String::new() };
        let (cores, groups, stop) = (Cores::share_out(), ProcessGroups::default(), StopFlag::default());
        let certificate = Certificate::make().unwrap();
        let ground = ServerResources {
            cores: &cores,
            groups: &groups,
            stop: &stop,
            certificate: &certificate,
            peers: None,
        };
        let why = Server::start(&found, Role::Http, None, ground).err().unwrap();
        assert_eq!(why, "`shell` has ended: exit status: 3; it printed: no such option");
        let none = Server::start(&found, Role::Gateway, None, ground).err().unwrap();
        assert_eq!(none, "it cannot be that");
    }

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

    #[test]
    fn only_the_end_of_what_was_printed_is_told() {
        assert_eq!(with_tail("gone", "\n \n"), "gone");
        assert_eq!(with_tail("gone", "1\n2\n3\n4\n\n5\n"), "gone; it printed: 2 / 3 / 4 / 5");
    }
}
