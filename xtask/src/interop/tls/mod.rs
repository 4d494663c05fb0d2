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

use super::check::Scene;
use crate::program::find_on_path;
use crate::server::Server;
use case::Case;
use certificates::{Authority, Key};

/// Looks at a server.
type Judge = fn(&Case<'_>) -> anyhow::Result<()>;

/// Servers: name, kind of key, `true` if the server asks clients for certificates, and judges.
const SERVERS: [(&str, Key, bool, &[Judge]); 3] = [
    ("P-256", Key::P256, false, &[soak::run, judges::testssl, judges::sslyze]),
    ("RSA", Key::Rsa, false, &[judges::testssl, judges::sslyze, tlsfuzzer::run]),
    ("clients", Key::Rsa, true, &[tlsfuzzer::run]),
];

/// Runs every judge that there is.
pub(super) fn run(scene: &Scene<'_>, tlsfuzzer: Option<&Path>) -> anyhow::Result<()> {
    if find_on_path("openssl").is_none() {
        scene.not_installed("openssl", "certificates to be judged with");
        return Ok(());
    }
    let authority = &Authority::new(scene.directory, scene.stop)?;
    for (name, key, asks_clients, judges) in SERVERS {
        let directory = &scene.directory.join(name);
        fs::create_dir_all(directory)?;
        authority.issue_server(key, directory)?;
        let mut config = include_str!("thruway.toml").to_owned();
        if asks_clients {
            authority.issue_client(key, directory)?;
            config = config.replace("[[routes]]", CLIENTS);
            fs::copy(authority.root(), directory.join("root.pem"))?;
        }
        let server = Server::serve(scene.program, &config, &directory.join("thruway.toml"), scene.stop)?;
        let port = server.port();
        let case = Case { scene, tlsfuzzer, kind: name, asks_clients, directory, authority, port };
        judges.iter().try_for_each(|judge| judge(&case))?;
        scene.row("thruway", &format!("{name}, judged"), || server.end(scene.stop))?;
    }
    Ok(())
}

const CLIENTS: &str = "client_certificates = { roots = [\"root.pem\"], required = false }\n\n[[routes]]";
