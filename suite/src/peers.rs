//! The servers that can take part, which `suite/data/peers.toml` lists, with their builds, commands and
//! configs.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::case::{Case, Peers, Role, Workload};
use crate::floor::RELAY;
use crate::process;

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
                let template = CONFIGS.iter().find(|(name, _)| *name == config);
                let (_, text) =
                    template.unwrap_or_else(|| panic!("peers.toml: there is no config `{config}`"));
                Self { arguments: words(&arguments), config: Some((*text).to_owned()) }
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

/// Returns ours behind gateways, at nine addresses with the same port.
pub(crate) fn backend() -> Setup {
    let mut arguments = "serve --workers 1 --listen {address}".to_owned();
    for place in 2..=9 {
        arguments.push_str(" --listen 127.0.0.");
        arguments.push_str(&place.to_string());
        arguments.push_str(":{port}");
    }
    RowSetup::Words(arguments).into()
}

macro_rules! configs {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("../peers/", $name)))),*] };
}

/// The configs, each with its name in `suite/peers`.
const CONFIGS: &[(&str, &str)] = configs![
    "counted-thruway.toml"
    "counted-tls-thruway.toml"
    "gateway-access-log.toml"
    "gateway-checks.toml"
    "gateway-haproxy-tuned.cfg"
    "gateway-haproxy.cfg"
    "gateway-metrics.toml"
    "gateway-nginx.conf"
    "gateway-policies.toml"
    "gateway-realistic.toml"
    "gateway-rewriting.toml"
    "gateway-routes.toml"
    "gateway-servers.toml"
    "gateway-thruway.toml"
    "h2o.conf"
    "haproxy.cfg"
    "http2-gateway-haproxy.cfg"
    "http2-gateway-nginx.conf"
    "http2-gateway-thruway.toml"
    "http2-h2o.conf"
    "http2-nginx.conf"
    "http2-thruway.toml"
    "nginx.conf"
    "tls-haproxy.cfg"
    "tls-nginx.conf"
    "tls-thruway.toml"
];

/// A backend that closes after each response.
pub(crate) const CLOSING_BACKEND: &str = include_str!("../peers/closing.py");

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
    /// Returns `true` if it can take part in a case.
    pub(crate) fn takes_part(&self, case: &Case) -> bool {
        let is_chosen = match case.peers {
            Peers::All => !self.is_extra,
            Peers::AllAnd(names) => !self.is_extra || names.contains(&&*self.name),
            Peers::Only(names) => names.contains(&&*self.name),
            Peers::None => false,
        };
        let is_other = self.name != case.ours && self.name != PEERS[0].name;
        is_chosen && is_other && self.setup(case.role()).is_some() && !self.not_in.contains(&case.workload)
    }

    /// Returns the number of connections that replaces `wanted`, if it has descriptors for fewer.
    pub(crate) fn connections_instead_of(&self, wanted: u32) -> Option<u32> {
        // Others share connections to the backend between clients, or queue requests.
        let room = if self.name == RELAY { process::room_for_clients(2) } else { None };
        room.filter(|room| *room < wanted)
    }

    /// Returns the setup for `role`, if it has one.
    pub(crate) fn setup(&self, role: Role) -> Option<&Setup> {
        self.setups.get(&role)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::case::{ComparisonKind, Peers};
    use crate::cases::cases;

    use super::*;

    #[test]
    fn every_peer_that_a_case_names_is_in_the_table_once() {
        let names: BTreeSet<_> = PEERS.iter().map(|peer| &*peer.name).collect();
        assert_eq!(names.len(), PEERS.len());
        for case in cases(Workload::all()) {
            if let Peers::Only(named) | Peers::AllAnd(named) = case.peers {
                assert!(named.iter().all(|name| names.contains(name)), "{}: {named:?}", case.name);
            }
        }
    }

    #[test]
    fn another_setup_of_a_peer_takes_part_only_where_it_is_named() {
        let extras: Vec<_> = PEERS.iter().filter(|peer| peer.is_extra).collect();
        assert!(!PEERS[0].is_extra && extras.len() == 27);
        for extra in extras {
            let is_named = |case: &Case| match case.peers {
                Peers::Only(named) | Peers::AllAnd(named) => named.contains(&&*extra.name),
                Peers::All | Peers::None => false,
            };
            let is_named = |case: &Case| is_named(case) || case.ours == extra.name;
            assert!(cases(Workload::all()).iter().any(is_named), "{}", extra.name);
        }
    }

    #[test]
    fn who_reads_no_http_stands_before_backends_that_keep_connections_and_with_fewer_clients() {
        let relay = PEERS.iter().find(|peer| peer.name == RELAY).unwrap();
        for case in cases(Workload::all()) {
            let is_named =
                matches!(case.peers, Peers::Only(named) | Peers::AllAnd(named) if named.contains(&RELAY));
            let can_be = case.between == ComparisonKind::Gateways && !case.is_http2;
            assert!(can_be || !is_named, "{}", case.name);
        }
        assert_eq!(relay.connections_instead_of(1), None);
        assert_eq!(relay.connections_instead_of(u32::MAX), process::room_for_clients(2));
        assert_eq!(PEERS[0].connections_instead_of(u32::MAX), None);
    }

    #[test]
    fn ours_can_be_everything_and_comes_first() {
        let ours = &PEERS[0];
        assert!(matches!(ours.program, Program::Ours(_)));
        let of_https = [Role::Tls, Role::Http2, Role::Http2Gateway];
        for role in [Role::Http, Role::Mcp, Role::Pipes, Role::Gateway].into_iter().chain(of_https) {
            assert!(ours.setup(role).is_some(), "{role:?}");
        }
    }
}
