//! The servers in `suite/data/peers.toml`, with their builds, commands and configs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::case::{Case, Peers, Role, Workload};
use crate::process::{first_line, max_clients};

/// A server that the suite can measure: Thruway or a peer.
#[derive(Deserialize)]
pub(crate) struct Peer {
    /// The name, for the command line and reports.
    pub(crate) name: String,
    /// Description of the setup, for reports.
    pub(crate) about: String,
    /// Location of the program.
    #[serde(flatten)]
    pub(crate) program: Program,
    /// Source of the version.
    pub(crate) version: Version,
    /// The roles that the server supports, each with its command.
    #[serde(flatten)]
    pub(crate) setups: BTreeMap<Role, Setup>,
    /// Excluded workloads.
    #[serde(default)]
    pub(crate) not_in: Vec<Workload>,
    /// `true` if the server takes part only in cases that name it. Examples are other setups or versions of a
    /// peer.
    #[serde(default, rename = "extra")]
    pub(crate) is_extra: bool,
    /// `true` if the server runs on the core of the backends, like the same server behind a gateway. A
    /// comparison with such a server shows the effect of the gateway alone.
    #[serde(default)]
    pub(crate) on_backend_core: bool,
    /// `true` if the server responds to MCP messages without reading them. Such a server shows the minimum
    /// cost.
    #[serde(default)]
    pub(crate) reads_no_messages: bool,
}

/// Location of a program.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Program {
    /// The program under test.
    Ours(String),
    /// A program in the `PATH`.
    Installed(String),
    /// A package of the workspace `peers/`. The program has the same name.
    Cargo(String),
    /// A command of the Go module `peers/go`.
    Go(String),
    /// The newest Debian package with this name.
    Debian(String),
    /// Node, with the packages of this folder of `peers/`.
    Node(String),
    /// Python, with the packages of this folder of `peers/`.
    Python(String),
}

/// Source of a version.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Version {
    /// The first line of the output of the program with this argument.
    Printed(String),
    /// The entry of this package in `Cargo.lock`.
    Locked(String),
    /// The line of this module in `go/go.mod`.
    GoModule(String),
    /// The output of `go version` for the program.
    Go,
    /// The entry of a package in the `package-lock.json` of this folder.
    NpmLock(String, String),
    /// The line of a package in the `requirements.txt` of this folder.
    Requirement(String, String),
}

/// The arguments and the config of a server in one role.
#[derive(Default, Deserialize)]
#[serde(from = "RowSetup")]
pub(crate) struct Setup {
    pub(crate) arguments: Vec<String>,
    pub(crate) config: Option<String>,
    /// Arguments of `python3` for a program that runs beside the server.
    pub(crate) beside: Vec<String>,
}

/// A setup in the file. If an argument contains a space, the arguments are a list instead of one string.
#[derive(Deserialize)]
#[serde(untagged)]
enum RowSetup {
    Words(String),
    List(Vec<String>),
    Configured { arguments: String, config: String, beside: Option<String> },
}

impl From<RowSetup> for Setup {
    fn from(row: RowSetup) -> Self {
        let words = |text: &str| text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        match row {
            RowSetup::Words(text) => Self { arguments: words(&text), ..Self::default() },
            RowSetup::List(arguments) => Self { arguments, ..Self::default() },
            RowSetup::Configured { arguments, config, beside } => {
                let text = fs::read_to_string(templates().join(&config));
                let text = text.unwrap_or_else(|error| panic!("peers.toml: config `{config}`: {error}"));
                let beside = words(&beside.unwrap_or_default());
                Self { arguments: words(&arguments), config: Some(text), beside }
            }
        }
    }
}

/// All servers, Thruway first. The file is compiled into this program. An error in it ends every run, and a
/// test detects it.
pub(crate) static PEERS: LazyLock<Vec<Peer>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct File {
        peer: Vec<Peer>,
    }
    let file: Result<File, _> = toml::from_str(include_str!("../data/peers.toml"));
    file.unwrap_or_else(|error| panic!("peers.toml: {error}")).peer
});

/// Returns the folder of the config templates in this repository.
pub(crate) fn templates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

impl Program {
    /// Returns the path of a built program, relative to the folder `peers`.
    pub(crate) fn build_path(&self) -> Option<String> {
        match self {
            Self::Ours(_) | Self::Installed(_) => None,
            Self::Cargo(package) => Some(format!("target/release/{package}")),
            Self::Go(command) => Some(format!("target/go/{command}")),
            Self::Debian(package) => Some(format!("target/debian/{package}/{package}")),
            // If the packages do not include Node, this link leads to the installed Node.
            Self::Node(folder) => Some(format!("target/{folder}/node")),
            Self::Python(folder) => Some(format!("target/{folder}/bin/python")),
        }
    }
}

impl Peer {
    /// Returns `true` for the program under test.
    pub(crate) const fn is_ours(&self) -> bool {
        matches!(self.program, Program::Ours(_))
    }

    /// Returns `true` if the peer takes part in a case.
    pub(crate) fn takes_part(&self, case: &Case) -> bool {
        let is_named = case.peers.named().contains(&self.name);
        let is_chosen = match case.peers {
            Peers::All | Peers::AllAnd(_) => is_named || !self.is_extra,
            Peers::Only(_) | Peers::None => is_named,
        };
        let is_other = self.name != case.ours && self.name != PEERS[0].name;
        is_chosen && is_other && self.setup(case.role()).is_some() && !self.not_in.contains(&case.workload)
    }

    /// Returns the maximum number of connections, if the peer does not have enough descriptors for `wanted`
    /// connections.
    pub(crate) fn connections_instead_of(&self, wanted: u32) -> Option<u32> {
        // Other gateways share backend connections between clients, or queue requests.
        let clients_max = if self.name == RELAY { max_clients(2) } else { None };
        clients_max.filter(|clients_max| *clients_max < wanted)
    }

    /// Returns the setup for `role`, if any.
    pub(crate) fn setup(&self, role: Role) -> Option<&Setup> {
        self.setups.get(&role)
    }

    /// Returns the version for reports, or `unknown`.
    pub(crate) fn version_of(&self, program: &Path, peers_from: Option<&Path>) -> String {
        let within = |file: &str, before: String| {
            let text = fs::read_to_string(peers_from?.join(file)).ok()?;
            let (_, rest) = text.split_once(&before)?;
            rest.split(['"', '\n', ' ']).next().map(str::to_owned)
        };
        let version = match &self.version {
            Version::Printed(argument) => first_line(Command::new(program).arg(argument)),
            Version::Locked(package) => within("Cargo.lock", format!("name = \"{package}\"\nversion = \"")),
            Version::GoModule(module) => within("go/go.mod", format!("{module} ")),
            Version::NpmLock(folder, package) => {
                let before = format!("\"node_modules/{package}\": {{\n      \"version\": \"");
                within(&format!("{folder}/{NPM_LOCK}"), before)
            }
            Version::Requirement(folder, package) => {
                within(&format!("{folder}/{REQUIREMENTS}"), format!("\n{package}=="))
            }
            Version::Go => first_line(Command::new("go").arg("version").arg(program))
                .and_then(|line| line.rsplit_once(": ").map(|(_, version)| version.to_owned())),
        };
        version.unwrap_or_else(|| "unknown".to_owned())
    }
}

/// Name of a relay that only copies bytes. The relay shows the minimum cost of a gateway.
pub(crate) const RELAY: &str = "relay";

/// Name of the lock file of npm packages.
pub(crate) const NPM_LOCK: &str = "package-lock.json";

/// Name of the file with the versions of Python packages.
pub(crate) const REQUIREMENTS: &str = "requirements.txt";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::case::{CASES, ComparisonKind};

    use super::*;

    #[test]
    fn peers_are_unique_and_extra_peers_need_to_be_named() {
        let names: BTreeSet<_> = PEERS.iter().map(|peer| &peer.name).collect();
        assert_eq!(names.len(), PEERS.len());
        let mut used: BTreeSet<_> = CASES.iter().flat_map(|case| case.peers.named()).collect();
        assert!(used.is_subset(&names), "{used:?}");
        used.extend(CASES.iter().map(|case| &case.ours));
        for extra in PEERS.iter().filter(|peer| peer.is_extra) {
            assert!(used.contains(&extra.name) || CASES.iter().any(|case| case.needs(&extra.name)));
            for case in CASES.iter().filter(|case| extra.takes_part(case)) {
                assert!(case.peers.named().contains(&extra.name), "{}: {}", extra.name, case.name);
            }
        }
    }

    #[test]
    fn relay_needs_keep_alive_backends_and_has_fewer_clients() {
        for case in CASES.iter().filter(|case| case.peers.named().iter().any(|name| name == RELAY)) {
            assert!(case.between == ComparisonKind::Gateways && !case.is_http2, "{}", case.name);
        }
        let relay = PEERS.iter().find(|peer| peer.name == RELAY).unwrap();
        assert_eq!(relay.connections_instead_of(1), None);
        assert_eq!(relay.connections_instead_of(u32::MAX), max_clients(2));
        assert_eq!(PEERS[0].connections_instead_of(u32::MAX), None);
    }

    #[test]
    fn thruway_is_first_and_supports_all_roles() {
        let ours = &PEERS[0];
        assert!(ours.is_ours() && !ours.is_extra);
        let of_https = [Role::Tls, Role::Http2, Role::Http2Gateway];
        let others = [Role::Http, Role::Mcp, Role::Pipes, Role::Gateway, Role::Backend];
        for role in others.into_iter().chain(of_https) {
            assert!(ours.setup(role).is_some(), "{role:?}");
        }
    }

    #[test]
    fn versions_are_read_from_lock_files() {
        let peers = templates().join("../../peers");
        for peer in PEERS.iter().filter(|peer| !matches!(peer.version, Version::Printed(_) | Version::Go)) {
            let version = peer.version_of(Path::new(""), Some(&peers));
            let is_number = version.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
            assert!(is_number, "{}: {version}", peer.name);
        }
    }
}
