//! `cargo xtask interop --acme`: certificates from Pebble, with which Let's Encrypt has clients of ACME
//! tested.
//!
//! It is not part of this repository: Go builds it, at the versions that `go.mod` and `go.sum` beside this
//! file name. It looks names up at a server of its own, which says that all of them are on this machine.

mod pebble;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::check::{self, Row, Setting};
use crate::child;
use crate::program::find_on_path;
use crate::server::Server;
use pebble::{Pebble, Ports};

/// Gets, renews and keeps certificates, in each of the ways in which names are validated.
pub(super) fn run(setting: &Setting<'_>) -> anyhow::Result<Vec<Row>> {
    let what = |challenge: &str| format!("certificates by {challenge}");
    if find_on_path("go").is_none() || find_on_path("curl").is_none() {
        return Ok(vec![Row::not_installed("pebble", &what("ACME"))]);
    }
    let programs = pebble::build(setting.stop)?;
    let mut rows = Vec::new();
    for challenge in ["http-01", "tls-alpn-01"] {
        eprintln!("pebble: {}", what(challenge));
        rows.push(check::row("pebble", &what(challenge), || {
            let directory = setting.directory.join(challenge);
            fs::create_dir(&directory)?;
            let pebble = Pebble::start(&programs, &directory, setting.stop)?;
            Site { setting, pebble, directory: &directory, challenge }.certificates()
        }));
        setting.stop.check()?;
    }
    Ok(rows)
}

/// A site that orders certificates.
struct Site<'s> {
    setting: &'s Setting<'s>,
    pebble: Pebble,
    directory: &'s Path,
    challenge: &'static str,
}

impl Site<'_> {
    fn certificates(&self) -> anyhow::Result<String> {
        let stop = self.setting.stop;
        let first = self.serve()?;
        let issued = stop.wait("a certificate", PATIENCE, || self.not_after())?;
        self.asked()?;
        let renewed = stop.wait("another one", PATIENCE, || {
            Ok(self.not_after()?.filter(|not_after| *not_after != issued))
        })?;
        self.asked()?;
        first.end(stop)?;
        // It is there from the first handshake on.
        let again = self.serve()?;
        self.asked()?;
        let kept = self.not_after()?.context("there is no certificate any more")?;
        ensure!(kept >= renewed, "{kept} instead of {renewed}");
        again.end(stop)?;
        let accounts = fs::read_dir(self.directory.join("acme"))?.count();
        ensure!(accounts == 1, "{accounts} ACME servers instead of one");
        Ok("issued, renewed, kept over a restart".to_owned())
    }

    fn serve(&self) -> anyhow::Result<Server> {
        let Ports { directory, http, tls, admin, .. } = self.pebble.ports;
        let config = CONFIG
            .replace("{directory}", &directory.to_string())
            .replace("{challenge}", self.challenge)
            .replace("{http}", &http.to_string())
            .replace("{tls}", &tls.to_string())
            .replace("{admin}", &admin.to_string());
        let file = self.directory.join("thruway.toml");
        Server::serve(self.setting.program, &config, &file, self.setting.stop)
    }

    /// Until when the certificate is valid that is shown at present; `None` if there is none.
    fn not_after(&self) -> anyhow::Result<Option<String>> {
        let mut command = Command::new("curl");
        let url = format!("http://127.0.0.1:{}/status", self.pebble.ports.admin);
        command.args(["--silent", "--show-error", "--fail", &url]);
        let status: Value = serde_json::from_str(&self.output(command)?)?;
        Ok(status["certificates"][0]["not_after"].as_str().map(str::to_owned))
    }

    /// Has curl ask for each name, and verify the certificate.
    fn asked(&self) -> anyhow::Result<()> {
        let root = self.pebble.root(self.setting.stop)?;
        let port = self.pebble.ports.tls;
        for name in ["www.thruway.example", "thruway.example"] {
            let mut command = Command::new("curl");
            command.args(["--silent", "--show-error", "--fail", "--cacert"]).arg(&root);
            command.arg("--resolve").arg(format!("{name}:{port}:127.0.0.1"));
            command.arg(format!("https://{name}:{port}/"));
            let answer = self.output(command)?;
            ensure!(answer == "from https", "{answer} instead of the answer");
        }
        Ok(())
    }

    fn output(&self, command: Command) -> anyhow::Result<String> {
        child::output_of("curl", command, PATIENCE, self.setting.stop)
    }
}

const CONFIG: &str = include_str!("thruway.toml");

/// Certificates live for a minute, and a failure costs more than another.
const PATIENCE: Duration = Duration::from_secs(150);
