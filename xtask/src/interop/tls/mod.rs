//! `cargo xtask interop --tls`: tests the TLS of `thruway serve` with third-party tools.
//!
//! The servers have different kinds of certificates. A finding that is not in `expected_findings.toml` fails
//! the run. An entry that matches no finding also fails the run.

mod certificates;
mod case;
mod scanners;
mod tlsfuzzer;
mod soak;

use std::fs;
use std::path::Path;

use super::check::Checker;
use crate::program::find_on_path;
use crate::server::Server;
use case::Case;
use certificates::{Authority, Key};

/// Tests a server with one tool.
type TlsTool = fn(&Case<'_>) -> anyhow::Result<()>;

/// The servers. Each has a name, a key type, `true` if the server requests client certificates, and test
/// tools.
const SERVERS: [(&str, Key, bool, &[TlsTool]); 3] = [
    ("P-256", Key::P256, false, &[soak::run, scanners::testssl, scanners::sslyze]),
    ("RSA", Key::Rsa, false, &[scanners::testssl, scanners::sslyze, tlsfuzzer::run]),
    ("clients", Key::Rsa, true, &[tlsfuzzer::run]),
];

/// Runs all installed tools.
pub(super) fn run(checker: &Checker<'_>, tlsfuzzer: Option<&Path>) -> anyhow::Result<()> {
    if find_on_path("openssl").is_none() {
        checker.not_installed("openssl", "TLS test tools");
        return Ok(());
    }
    let authority = &Authority::new(checker.directory, checker.stop)?;
    for (name, key, requests_client_certificates, scanners) in SERVERS {
        let directory = &checker.directory.join(name);
        fs::create_dir_all(directory)?;
        authority.issue_server(key, directory)?;
        let mut config = include_str!("thruway.toml").to_owned();
        if requests_client_certificates {
            authority.issue_client(key, directory)?;
            config = config.replace("[[routes]]", CLIENTS);
            fs::copy(authority.root(), directory.join("root.pem"))?;
        }
        let server = Server::serve(checker.program, &config, &directory.join("thruway.toml"), checker.stop)?;
        let port = server.port();
        let case =
            Case { checker, tlsfuzzer, kind: name, requests_client_certificates, directory, authority, port };
        scanners.iter().try_for_each(|tool| tool(&case))?;
        checker.row("thruway", &format!("{name}, end"), || server.end(checker.stop))?;
    }
    Ok(())
}

const CLIENTS: &str = "client_certificates = { roots = [\"root.pem\"], required = false }\n\n[[routes]]";
