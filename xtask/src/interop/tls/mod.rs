//! `cargo xtask interop --tls`: programs of other authors judge TLS as `thruway serve` speaks it.
//!
//! Each judge looks at a server with a certificate of one kind. A finding that is not in
//! `expected_findings.toml` fails, and so does an entry that no judge finds.

mod certificates;
mod judges;
mod tlsfuzzer;
mod soak;

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::check::{self, Row, Setting};
use crate::expected::Expected;
use crate::program::find_on_path;
use crate::server::Server;

pub(super) use certificates::{Authority, Key};

/// Runs every judge that there is.
///
/// # Errors
/// Only when a server did not start, or it is time to end.
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
    /// Whether clients are asked for certificates.
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
    /// Starts it with its files in `directory`; at which port it listens is told.
    ///
    /// # Errors
    /// It does not start.
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

/// A server before a judge.
struct Case<'s> {
    setting: &'s Setting<'s>,
    /// A checkout of `tlsfuzzer`, if there is one.
    tlsfuzzer: Option<&'s Path>,
    /// What its certificate is.
    kind: &'static str,
    /// Where the server's files are; judges leave theirs there.
    directory: &'s Path,
    authority: &'s Authority<'s>,
    port: u16,
}

impl Case<'_> {
    /// Returns the findings of a judge that are expected.
    fn expected(&self, judge: &str) -> anyhow::Result<Expected> {
        Expected::read_of(LIST, judge, self.kind)
    }

    /// The row of a judge that is `program`, if that is there.
    fn row(&self, program: &'static str, what: &str, run: impl FnOnce() -> anyhow::Result<String>) -> Row {
        let what = format!("{}: {what}", self.kind);
        eprintln!("{program}: {what}");
        check::row(program, &what, run)
    }
}

const LIST: &str = include_str!("expected_findings.toml");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_of_judges_can_be_read() {
        for judge in ["testssl", "sslyze"] {
            assert!(Expected::read_of(LIST, judge, "RSA").is_ok(), "{judge}");
        }
    }
}
