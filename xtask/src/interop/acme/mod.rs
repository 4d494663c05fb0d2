//! `cargo xtask interop --acme`: orders certificates from Pebble, the ACME test server of Let's Encrypt.
//!
//! Pebble is not part of this repository. Go builds it from the versions in `go.mod` and `go.sum`. Pebble
//! uses a DNS test server that resolves every name to this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use thruway_testkit::CertificateAuthority;

use super::check::Checker;
use super::words;
use crate::child::{self, Running};
use crate::packages;
use crate::program::find_on_path;
use crate::server::{Server, free_addresses};

/// Tests the issuance, renewal and storage of certificates with each type of challenge.
pub(super) fn run(checker: &Checker<'_>) -> anyhow::Result<()> {
    if find_on_path("go").is_none() || find_on_path("curl").is_none() {
        checker.not_installed("pebble", "certificates by ACME");
        return Ok(());
    }
    let module = "github.com/letsencrypt/pebble/v2/cmd";
    let commands = [format!("{module}/pebble"), format!("{module}/pebble-challtestsrv")];
    let commands = commands.each_ref().map(String::as_str);
    let programs = packages::go("xtask/src/interop/acme", &commands, checker.stop)?;
    for challenge in ["http-01", "tls-alpn-01"] {
        checker.row("pebble", &format!("certificates by {challenge}"), || {
            Site::new(checker, &programs, challenge, challenge)?.certificates()
        })?;
    }
    if find_on_path("redis-server").is_none() {
        checker.not_installed("redis-server", "one certificate for three replicas");
        return Ok(());
    }
    checker.row("pebble", "one certificate for three replicas", || {
        Site::new(checker, &programs, "http-01", "replicas")?.replicas()
    })
}

/// A site that orders certificates from Pebble. Dropping this value ends Pebble.
struct Site<'s> {
    checker: &'s Checker<'s>,
    directory: PathBuf,
    /// The values of the placeholders in configs: the ports of all servers, file paths, and the challenge
    /// type.
    placeholders: Vec<(&'static str, String)>,
    /// The certificate authority that issued the TLS certificate of Pebble.
    authority: CertificateAuthority,
    _running: [Running; 2],
}

impl<'s> Site<'s> {
    /// Starts Pebble and its DNS server.
    fn new(checker: &'s Checker<'s>, programs: &Path, challenge: &str, name: &str) -> anyhow::Result<Self> {
        let directory = checker.directory.join(name);
        fs::create_dir(&directory)?;
        let authority = CertificateAuthority::new();
        fs::copy(authority.root(), directory.join("pebble.root.pem"))?;
        let files = authority.issue("pebble", &["127.0.0.1"]);
        let addresses: [_; 6] = free_addresses()?;
        let ports = addresses.map(|address| address.port().to_string());
        let names = ["directory", "management", "names", "http", "tls", "admin"];
        let mut placeholders: Vec<_> = names.into_iter().zip(ports).collect();
        let files = [("certificate", files.chain), ("key", files.key)];
        placeholders.extend(files.map(|(name, file)| (name, file.display().to_string())));
        placeholders.push(("challenge", challenge.to_owned()));

        let names = format!("127.0.0.1:{}", value(&placeholders, "names"));
        let mut name_server = Command::new(programs.join("pebble-challtestsrv"));
        name_server.args(["-dnsserver", &names, "-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""]);
        for unused in ["-management", "-http01", "-https01", "-tlsalpn01", "-doh"] {
            name_server.args([unused, ""]);
        }
        let name_server = Running::start(name_server, &directory.join("names.log"))?;
        let config = directory.join("pebble.json");
        fs::write(&config, words::replaced(include_str!("pebble.json"), &placeholders))?;
        let mut pebble = Command::new(programs.join("pebble"));
        pebble.arg("-config").arg(&config).args(["-strict", "-dnsserver", &names]);
        // With this setting, Pebble validates challenges without a delay. Pebble still rejects some nonces on
        // purpose.
        pebble.env("PEBBLE_VA_NOSLEEP", "1");
        let log = directory.join("pebble.log");
        let pebble = Running::start(pebble, &log)?;
        let site = Self { checker, directory, placeholders, authority, _running: [name_server, pebble] };
        let is_ready = checker.stop.wait("Pebble to answer", WAIT_LIMIT, || Ok(site.root().ok()));
        is_ready.with_context(|| child::tail(&child::text_of(&log).unwrap_or_default()))?;
        Ok(site)
    }

    fn certificates(&self) -> anyhow::Result<String> {
        let stop = self.checker.stop;
        let first = self.start_thruway()?;
        let admin = value(&self.placeholders, "admin");
        let issued = stop.wait("a certificate", WAIT_LIMIT, || self.not_after(admin))?;
        self.check_tls()?;
        let renewed = stop.wait("a renewed certificate", WAIT_LIMIT, || {
            Ok(self.not_after(admin)?.filter(|not_after| *not_after != issued))
        })?;
        self.check_tls()?;
        first.end(stop)?;
        // The server uses the stored certificate from the first handshake on.
        let again = self.start_thruway()?;
        self.check_tls()?;
        let kept = self.not_after(admin)?.context("the server has no certificate after the restart")?;
        ensure!(
            kept >= renewed,
            "after the restart, the certificate expires at {kept}, before the renewed certificate ({renewed})"
        );
        again.end(stop)?;
        let accounts = fs::read_dir(self.directory.join("acme"))?.count();
        ensure!(accounts == 1, "{accounts} ACME accounts instead of one");
        Ok("certificate issued, renewed, and kept after a restart".to_owned())
    }

    /// Three replicas with one Redis order one certificate, and renew it once.
    fn replicas(&self) -> anyhow::Result<String> {
        let stop = self.checker.stop;
        let addresses: [_; 10] = free_addresses()?;
        let [redis, ports @ ..] = addresses.map(|address| address.port().to_string());
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--port", &redis]);
        let _redis = Running::start(command, &self.directory.join("redis.log"))?;
        let (mut servers, mut admins) = (Vec::new(), Vec::new());
        for (number, ports) in ports.chunks(3).enumerate() {
            let directory = self.directory.join(number.to_string());
            fs::create_dir(&directory)?;
            fs::copy(self.directory.join("pebble.root.pem"), directory.join("pebble.root.pem"))?;
            let mut placeholders = self.placeholders.clone();
            // Pebble connects only to the first replica.
            for (name, port) in ["http", "tls", "admin"].into_iter().zip(ports).filter(|_| number > 0) {
                placeholders.retain(|(other, _)| *other != name);
                placeholders.push((name, port.clone()));
            }
            let shared = format!("[shared]\nstore = \"redis://127.0.0.1:{redis}\"\nkey = \"{KEY}\"\n");
            let config = shared + &words::replaced(include_str!("thruway.toml"), &placeholders);
            let file = directory.join("thruway.toml");
            servers.push(Server::serve(self.checker.program, &config, &file, stop)?);
            admins.push(value(&placeholders, "admin").to_owned());
        }
        // Returns the expiry time, if all replicas have the same certificate.
        let shared = || {
            let all = admins.iter().map(|admin| self.not_after(admin)).collect::<Result<Vec<_>, _>>()?;
            Ok(all[0].clone().filter(|_| all.iter().all(|other| *other == all[0])))
        };
        let first = stop.wait("a shared certificate", WAIT_LIMIT, shared)?;
        let is_other = || Ok(shared()?.filter(|not_after| *not_after != first));
        stop.wait("a renewed shared certificate", WAIT_LIMIT, is_other)?;
        let log = child::text_of(&self.directory.join("pebble.log"))?;
        let counts = ["orders in the db", "Issued certificate"].map(|line| log.matches(line).count());
        ensure!(counts == [2, 2], "{} orders and {} certificates instead of two", counts[0], counts[1]);
        servers.into_iter().try_for_each(|server| server.end(stop).map(drop))?;
        Ok("certificate issued once and renewed once".to_owned())
    }

    fn start_thruway(&self) -> anyhow::Result<Server> {
        let config = words::replaced(include_str!("thruway.toml"), &self.placeholders);
        let file = self.directory.join("thruway.toml");
        Server::serve(self.checker.program, &config, &file, self.checker.stop)
    }

    /// Writes the root certificate of Pebble to a file and returns its path. Pebble makes a new root at each
    /// start.
    fn root(&self) -> anyhow::Result<PathBuf> {
        let url = format!("https://127.0.0.1:{}/roots/0", value(&self.placeholders, "management"));
        let root = self.curl(&["--cacert", &self.authority.root().display().to_string(), &url])?;
        let path = self.directory.join("issuer.root.pem");
        fs::write(&path, root)?;
        Ok(path)
    }

    /// Returns the expiry time of the current certificate of the server with the admin port `admin`, or `None`
    /// if there is no certificate.
    fn not_after(&self, admin: &str) -> anyhow::Result<Option<String>> {
        let url = format!("http://127.0.0.1:{admin}/status");
        let status: Value = serde_json::from_str(&self.curl(&[&url])?)?;
        Ok(status["certificates"][0]["not_after"].as_str().map(str::to_owned))
    }

    /// Requests each name with curl, which verifies the certificate.
    fn check_tls(&self) -> anyhow::Result<()> {
        let root = self.root()?.display().to_string();
        let port = value(&self.placeholders, "tls");
        for name in ["www.thruway.example", "thruway.example"] {
            let (at, url) = (format!("{name}:{port}:127.0.0.1"), format!("https://{name}:{port}/"));
            let answer = self.curl(&["--cacert", &root, "--resolve", &at, &url])?;
            ensure!(answer == "from https", "unexpected response: {answer}");
        }
        Ok(())
    }

    fn curl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--fail"]).args(arguments);
        child::output_of("curl", command, WAIT_LIMIT, self.checker.stop)
    }
}

fn value<'p>(placeholders: &'p [(&str, String)], name: &str) -> &'p str {
    placeholders.iter().find(|(other, _)| *other == name).map_or("", |(_, value)| value)
}

/// The operator key of the replicas.
const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// Certificates are valid for a minute. After a failed order, the server waits more than a minute for the
/// next order.
const WAIT_LIMIT: Duration = Duration::from_secs(150);
