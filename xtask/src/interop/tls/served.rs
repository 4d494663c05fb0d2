//! The servers that are judged.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::case::Case;
use super::certificates::{Authority, Key};
use super::{soak, sslyze, testssl, tlsfuzzer};
use crate::interop::check::{Row, Setting};
use crate::server::Server;

/// A server with one certificate.
pub(super) struct Served {
    pub(super) name: &'static str,
    key: Key,
    /// Whether clients are asked for certificates.
    asks_clients: bool,
    pub(super) judges: &'static [Judge],
}

/// Looks at a server; a row for each thing that it has looked at.
pub(super) type Judge = fn(&Case<'_>) -> Vec<Row>;

pub(super) const SERVERS: &[Served] = &[
    Served {
        name: "P-256",
        key: Key::P256,
        asks_clients: false,
        judges: &[soak::run, testssl::run, sslyze::run],
    },
    Served {
        name: "RSA",
        key: Key::Rsa,
        asks_clients: false,
        judges: &[testssl::run, sslyze::run, tlsfuzzer::run],
    },
    Served { name: "clients", key: Key::Rsa, asks_clients: true, judges: &[tlsfuzzer::run] },
];

impl Served {
    /// Starts it with its files in `directory`; at which port it listens is told.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn start(
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
        let path = directory.join("thruway.toml");
        fs::write(&path, config)?;
        let path = path.to_str().context("the temporary directory's path is not UTF-8")?;
        let log = directory.join("server.log");
        let server = Server::start(setting.program, &["serve", path], &log, setting.stop)?;
        let port = server.url().rsplit(':').next().and_then(|port| port.parse().ok());
        Ok((server, port.context("it listens at no port")?))
    }
}

const CONFIG: &str = r#"
workers = 2

[[listeners]]
address = "127.0.0.1:0"
http2 = true

[listeners.tls]
certificates = [{ chain = "www.pem", key = "www.key" }]
strict_transport_security = "max-age=31536000"

[[routes]]
path = "/"
demo = true
"#;

const CLIENTS: &str = "client_certificates = { roots = [\"root.pem\"], required = false }\n\n[[routes]]";
