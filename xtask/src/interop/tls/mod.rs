//! `cargo xtask interop --tls`: programs of other authors judge TLS as `thruway serve` speaks it.
//!
//! Each judge looks at a server with a certificate of one kind. A finding that is not in
//! `expected_findings.toml` fails, and so does an entry that no judge finds.

mod certificates;
mod case;
mod judges;
mod tlsfuzzer;
mod soak;

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::check::{self, Row, Setting};
use crate::program::find_on_path;
use crate::server::Server;
use case::Case;

pub(super) use certificates::{Authority, Key};

/// Runs every judge that there is.
pub(super) fn run(setting: &Setting<'_>, tlsfuzzer: Option<&Path>) -> anyhow::Result<Vec<Row>> {
    if find_on_path("openssl").is_none() {
        return Ok(vec![Row::not_installed("openssl", "certificates to be judged with")]);
    }
    let authority = Authority::new(setting.directory, setting.stop)?;
    let mut rows = Vec::new();
    for kind in SERVERS {
        rows.extend(judge(kind, &authority, setting, tlsfuzzer)?);
    }
    Ok(rows)
}

fn judge(
    kind: &Served,
    authority: &Authority<'_>,
    setting: &Setting<'_>,
    tlsfuzzer: Option<&Path>,
) -> anyhow::Result<Vec<Row>> {
    let directory = setting.directory.join(kind.name);
    fs::create_dir_all(&directory)?;
    let (server, port) = kind.start(authority, &directory, setting)?;
    let case = Case { setting, tlsfuzzer, kind: kind.name, directory: &directory, authority, port };
    let mut rows = Vec::new();
    for judge in kind.judges {
        rows.extend(judge(&case));
        setting.stop.check()?;
    }
    rows.push(check::row("thruway", &format!("{}, judged", kind.name), || server.end(setting.stop)));
    Ok(rows)
}

/// A server with one certificate.
struct Served {
    name: &'static str,
    key: Key,
    /// `true` if the server asks clients for certificates.
    asks_clients: bool,
    judges: &'static [Judge],
}

/// Looks at a server; a row for each thing that it has looked at.
type Judge = fn(&Case<'_>) -> Vec<Row>;

const SERVERS: &[Served] = &[
    Served {
        name: "P-256",
        key: Key::P256,
        asks_clients: false,
        judges: &[soak::run, judges::testssl, judges::sslyze],
    },
    Served {
        name: "RSA",
        key: Key::Rsa,
        asks_clients: false,
        judges: &[judges::testssl, judges::sslyze, tlsfuzzer::run],
    },
    Served { name: "clients", key: Key::Rsa, asks_clients: true, judges: &[tlsfuzzer::run] },
];

impl Served {
    /// Starts it with its files in `directory`, and returns its port.
    fn start(
        &self,
        authority: &Authority<'_>,
        directory: &Path,
        setting: &Setting<'_>,
    ) -> anyhow::Result<(Server, u16)> {
        authority.issue_server(self.key, directory)?;
        let mut config = CONFIG.to_owned();
        if self.asks_clients {
            authority.issue_client(self.key, directory)?;
            config = config.replace("[[routes]]", CLIENTS);
            fs::copy(authority.root(), directory.join("root.pem"))?;
        }
        let file = directory.join("thruway.toml");
        let server = Server::serve(setting.program, &config, &file, setting.stop)?;
        let port = server.address().rsplit(':').next().and_then(|port| port.parse().ok());
        Ok((server, port.context("it listens at no port")?))
    }
}

const CONFIG: &str = include_str!("thruway.toml");

const CLIENTS: &str = "client_certificates = { roots = [\"root.pem\"], required = false }\n\n[[routes]]";
