//! `cargo xtask interop --acme`: certificates from Pebble, with which Let's Encrypt has clients of ACME
//! tested.
//!
//! It is not part of this repository: Go builds it, at the versions that `go.mod` and `go.sum` beside this
//! file name. It looks names up at a server of its own, which says that all of them are on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use thruway_testkit::CertificateAuthority;

use super::check::Scene;
use super::words;
use crate::child::{self, Running};
use crate::packages;
use crate::program::find_on_path;
use crate::server::{Server, free_addresses};

/// Gets, renews and keeps certificates, in each of the ways in which names are validated.
pub(super) fn run(scene: &Scene<'_>) -> anyhow::Result<()> {
    if find_on_path("go").is_none() || find_on_path("curl").is_none() {
        scene.not_installed("pebble", "certificates by ACME");
        return Ok(());
    }
    let module = "github.com/letsencrypt/pebble/v2/cmd";
    let commands = [format!("{module}/pebble"), format!("{module}/pebble-challtestsrv")];
    let commands = commands.each_ref().map(String::as_str);
    let programs = packages::go("xtask/src/interop/acme", &commands, scene.stop)?;
    for challenge in ["http-01", "tls-alpn-01"] {
        scene.row("pebble", &format!("certificates by {challenge}"), || {
            Site::new(scene, &programs, challenge)?.certificates()
        })?;
    }
    Ok(())
}

/// A site that orders certificates from Pebble, which ends with this.
struct Site<'s> {
    scene: &'s Scene<'s>,
    directory: PathBuf,
    /// The ports of all servers and the challenge, by the names that configs have for them.
    places: Vec<(&'static str, String)>,
    /// It has issued the certificate of Pebble itself.
    authority: CertificateAuthority,
    _running: [Running; 2],
}

impl<'s> Site<'s> {
    /// Starts Pebble and its server of names.
    fn new(scene: &'s Scene<'s>, programs: &Path, challenge: &str) -> anyhow::Result<Self> {
        let directory = scene.directory.join(challenge);
        fs::create_dir(&directory)?;
        let authority = CertificateAuthority::new();
        fs::copy(authority.root(), directory.join("pebble.root.pem"))?;
        let files = authority.issue("pebble", &["127.0.0.1"]);
        let addresses: [_; 6] = free_addresses()?;
        let ports = addresses.map(|address| address.port().to_string());
        let names = ["directory", "management", "names", "http", "tls", "admin"];
        let mut places: Vec<_> = names.into_iter().zip(ports).collect();
        let files = [("certificate", files.chain), ("key", files.key)];
        places.extend(files.map(|(name, file)| (name, file.display().to_string())));
        places.push(("challenge", challenge.to_owned()));

        let names = format!("127.0.0.1:{}", value(&places, "names"));
        let mut name_server = Command::new(programs.join("pebble-challtestsrv"));
        name_server.args(["-dnsserver", &names, "-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""]);
        for unused in ["-management", "-http01", "-https01", "-tlsalpn01", "-doh"] {
            name_server.args([unused, ""]);
        }
        let name_server = Running::start(name_server, &directory.join("names.log"))?;
        let config = directory.join("pebble.json");
        fs::write(&config, words::replaced(include_str!("pebble.json"), &places))?;
        let mut pebble = Command::new(programs.join("pebble"));
        pebble.arg("-config").arg(&config).args(["-strict", "-dnsserver", &names]);
        // Validations begin at once; that some numbers are not fresh enough stays as it is.
        pebble.env("PEBBLE_VA_NOSLEEP", "1");
        let log = directory.join("pebble.log");
        let pebble = Running::start(pebble, &log)?;
        let site = Self { scene, directory, places, authority, _running: [name_server, pebble] };
        let asked = scene.stop.wait("Pebble to answer", PATIENCE, || Ok(site.root().ok()));
        asked.with_context(|| child::tail(&child::text_of(&log).unwrap_or_default()))?;
        Ok(site)
    }

    fn certificates(&self) -> anyhow::Result<String> {
        let stop = self.scene.stop;
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
        let config = words::replaced(include_str!("thruway.toml"), &self.places);
        let file = self.directory.join("thruway.toml");
        Server::serve(self.scene.program, &config, &file, self.scene.stop)
    }

    /// A file with the certificate of the authority of Pebble, which is another one each time.
    fn root(&self) -> anyhow::Result<PathBuf> {
        let url = format!("https://127.0.0.1:{}/roots/0", value(&self.places, "management"));
        let root = self.curl(&["--cacert", &self.authority.root().display().to_string(), &url])?;
        let path = self.directory.join("issuer.root.pem");
        fs::write(&path, root)?;
        Ok(path)
    }

    /// Until when the certificate is valid that is shown at present; `None` if there is none.
    fn not_after(&self) -> anyhow::Result<Option<String>> {
        let url = format!("http://127.0.0.1:{}/status", value(&self.places, "admin"));
        let status: Value = serde_json::from_str(&self.curl(&[&url])?)?;
        Ok(status["certificates"][0]["not_after"].as_str().map(str::to_owned))
    }

    /// Has curl ask for each name, and verify the certificate.
    fn asked(&self) -> anyhow::Result<()> {
        let root = self.root()?.display().to_string();
        let port = value(&self.places, "tls");
        for name in ["www.thruway.example", "thruway.example"] {
            let (at, url) = (format!("{name}:{port}:127.0.0.1"), format!("https://{name}:{port}/"));
            let answer = self.curl(&["--cacert", &root, "--resolve", &at, &url])?;
            ensure!(answer == "from https", "{answer} instead of the answer");
        }
        Ok(())
    }

    fn curl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--fail"]).args(arguments);
        child::output_of("curl", command, PATIENCE, self.scene.stop)
    }
}

fn value<'p>(places: &'p [(&str, String)], name: &str) -> &'p str {
    places.iter().find(|(other, _)| *other == name).map_or("", |(_, value)| value)
}

/// Certificates live for a minute, and a failure costs more than another.
const PATIENCE: Duration = Duration::from_secs(150);
