//! The servers that can take part, which `suite/data/peers.toml` lists, with their builds, commands and
//! configs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::case::{Case, Peers, Role, Workload};
use crate::process::{first_line, room_for_clients};

/// A server that can take part; ours is one of them.
#[derive(Deserialize)]
pub(crate) struct Peer {
    /// Name on the command line and in reports.
    pub(crate) name: String,
    /// Its setup, for reports.
    pub(crate) about: String,
    /// Place of its program.
    #[serde(flatten)]
    pub(crate) program: Program,
    /// Place of its version.
    pub(crate) version: Version,
    /// The roles that it can have, each with the way to start it.
    #[serde(flatten)]
    pub(crate) setups: BTreeMap<Role, Setup>,
    /// The workloads that it has no part in nevertheless.
    #[serde(default)]
    pub(crate) not_in: Vec<Workload>,
    /// `true` if it takes part only in cases that name it: another setup or version of a peer, or a peer with
    /// fewer features.
    #[serde(default, rename = "extra")]
    pub(crate) is_extra: bool,
    /// `true` if it answers MCP messages without reading them, as a floor for servers that read them.
    #[serde(default)]
    pub(crate) reads_no_messages: bool,
}

/// Place of a program.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Program {
    /// The program under test.
    Ours(String),
    /// In the `PATH`.
    Installed(String),
    /// A package of the workspace `peers/`; its program has the same name.
    Cargo(String),
    /// A command of the Go module `peers/go`.
    Go(String),
    /// The newest package of this name that Debian has.
    Debian(String),
    /// Node, with the packages of this folder of `peers/`.
    Node(String),
    /// Python, with the packages of this folder of `peers/`.
    Python(String),
}

/// Place of a version.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Version {
    /// The first line that the program prints with this argument.
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

/// The way to start a server in one role.
#[derive(Deserialize)]
#[serde(from = "RowSetup")]
pub(crate) struct Setup {
    pub(crate) arguments: Vec<String>,
    pub(crate) config: Option<String>,
}

/// A setup in the file. Arguments are a list if one of them has a space.
#[derive(Deserialize)]
#[serde(untagged)]
enum RowSetup {
    Words(String),
    List(Vec<String>),
    Configured { arguments: String, config: String },
}

impl From<RowSetup> for Setup {
    fn from(row: RowSetup) -> Self {
        let words = |text: &str| text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        match row {
            RowSetup::Words(text) => Self { arguments: words(&text), config: None },
            RowSetup::List(arguments) => Self { arguments, config: None },
            RowSetup::Configured { arguments, config } => {
                let text = fs::read_to_string(templates().join(&config));
                let text = text.unwrap_or_else(|error| panic!("peers.toml: config `{config}`: {error}"));
                Self { arguments: words(&arguments), config: Some(text) }
            }
        }
    }
}

/// All of them, ours first. The file is part of this program, and a test reads it: an error in it ends any
/// run.
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
    /// Returns the place of a program that is built, below the folder `peers`.
    pub(crate) fn place(&self) -> Option<String> {
        match self {
            Self::Ours(_) | Self::Installed(_) => None,
            Self::Cargo(package) => Some(format!("target/release/{package}")),
            Self::Go(command) => Some(format!("target/go/{command}")),
            Self::Debian(package) => Some(format!("target/debian/{package}/{package}")),
            // The system's Node, if the packages of the folder have none.
            Self::Node(folder) => Some(format!("target/{folder}/node")),
            Self::Python(folder) => Some(format!("target/{folder}/bin/python")),
        }
    }
}

impl Peer {
    /// Returns `true` if it is the program under test.
    pub(crate) const fn is_ours(&self) -> bool {
        matches!(self.program, Program::Ours(_))
    }

    /// Returns `true` if it can take part in a case.
    pub(crate) fn takes_part(&self, case: &Case) -> bool {
        let is_named = case.peers.named().contains(&self.name);
        let is_chosen = match case.peers {
            Peers::All | Peers::AllAnd(_) => is_named || !self.is_extra,
            Peers::Only(_) | Peers::None => is_named,
        };
        let is_other = self.name != case.ours && self.name != PEERS[0].name;
        is_chosen && is_other && self.setup(case.role()).is_some() && !self.not_in.contains(&case.workload)
    }

    /// Returns the number of connections that replaces `wanted`, if it has descriptors for fewer.
    pub(crate) fn connections_instead_of(&self, wanted: u32) -> Option<u32> {
        // Others share connections to the backend between clients, or queue requests.
        let room = if self.name == RELAY { room_for_clients(2) } else { None };
        room.filter(|room| *room < wanted)
    }

    /// Returns the setup for `role`, if it has one.
    pub(crate) fn setup(&self, role: Role) -> Option<&Setup> {
        self.setups.get(&role)
    }

    /// Returns the version for reports; `unknown` rather than an error.
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

/// A relay that only passes on bytes, as a floor for gateways.
pub(crate) const RELAY: &str = "relay";

/// Lock file of a folder with npm packages.
pub(crate) const NPM_LOCK: &str = "package-lock.json";

/// Requirements of a folder with Python packages.
pub(crate) const REQUIREMENTS: &str = "requirements.txt";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::case::{CASES, ComparisonKind};

    use super::*;

    #[test]
    fn every_peer_is_in_the_table_once_and_extra_ones_take_part_only_where_they_are_named() {
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
    fn the_relay_stands_before_backends_that_keep_connections_and_with_fewer_clients() {
        for case in CASES.iter().filter(|case| case.peers.named().iter().any(|name| name == RELAY)) {
            assert!(case.between == ComparisonKind::Gateways && !case.is_http2, "{}", case.name);
        }
        let relay = PEERS.iter().find(|peer| peer.name == RELAY).unwrap();
        assert_eq!(relay.connections_instead_of(1), None);
        assert_eq!(relay.connections_instead_of(u32::MAX), room_for_clients(2));
        assert_eq!(PEERS[0].connections_instead_of(u32::MAX), None);
    }

    #[test]
    fn ours_can_be_everything_and_comes_first() {
        let ours = &PEERS[0];
        assert!(ours.is_ours() && !ours.is_extra);
        let of_https = [Role::Tls, Role::Http2, Role::Http2Gateway];
        let others = [Role::Http, Role::Mcp, Role::Pipes, Role::Gateway, Role::Backend];
        for role in others.into_iter().chain(of_https) {
            assert!(ours.setup(role).is_some(), "{role:?}");
        }
    }

    #[test]
    fn versions_are_found_in_the_lock_files_of_the_peers() {
        let peers = templates().join("../../peers");
        for peer in PEERS.iter().filter(|peer| !matches!(peer.version, Version::Printed(_) | Version::Go)) {
            let version = peer.version_of(Path::new(""), Some(&peers));
            let is_number = version.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
            assert!(is_number, "{}: {version}", peer.name);
        }
    }
}
