//! Pebble, and the server of names that it asks.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::json;
use thruway_testkit::CertificateAuthority;

use crate::child::{self, Running};
use crate::packages;
use crate::stop::Stop;

/// The programs of Pebble.
pub(super) struct Programs {
    pebble: PathBuf,
    names: PathBuf,
}

/// Pebble, with an authority for its own certificate. It ends with this.
pub(super) struct Pebble {
    pub(super) ports: Ports,
    _authority: CertificateAuthority,
    _name_server: Running,
    _server: Running,
    directory: PathBuf,
}

/// Ports of this machine.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    pub(super) directory: u16,
    pub(super) management: u16,
    pub(super) names: u16,
    /// Port for validation by requests.
    pub(super) http: u16,
    /// Port for validation by handshakes.
    pub(super) tls: u16,
    /// Port of the admin listener of the site.
    pub(super) admin: u16,
}

/// Builds both programs.
pub(super) fn build(stop: &Stop) -> anyhow::Result<Programs> {
    let module = "github.com/letsencrypt/pebble/v2/cmd";
    let commands = [format!("{module}/pebble"), format!("{module}/pebble-challtestsrv")];
    let commands = commands.each_ref().map(String::as_str);
    let target = packages::go_module("xtask/src/interop/acme", "pebble", &commands, stop)?;
    Ok(Programs { pebble: target.join("pebble"), names: target.join("pebble-challtestsrv") })
}

impl Pebble {
    pub(super) fn start(programs: &Programs, directory: &Path, stop: &Stop) -> anyhow::Result<Self> {
        let (ports, authority) = (Ports::free()?, CertificateAuthority::new());
        fs::copy(authority.root(), directory.join("pebble.root.pem"))?;
        let names = format!("127.0.0.1:{}", ports.names);
        let mut command = Command::new(&programs.names);
        let words =
            ["-dnsserver", &names, "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-management", ""];
        command.args(words).args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""]);
        let name_server = Running::start(command, &directory.join("names.log"))?;
        let config = directory.join("pebble.json");
        fs::write(&config, ports.config(&authority).to_string())?;
        let mut command = Command::new(&programs.pebble);
        command.arg("-config").arg(&config).args(["-strict", "-dnsserver", &names]);
        // Validations begin at once; that some numbers are not fresh enough stays as it is.
        command.env("PEBBLE_VA_NOSLEEP", "1");
        let log = directory.join("pebble.log");
        let running = Running::start(command, &log)?;
        let directory = directory.to_owned();
        let pebble =
            Self { ports, _authority: authority, _name_server: name_server, _server: running, directory };
        let is_there = || Ok(pebble.ask_for_root(stop).ok());
        let asked = stop.wait("Pebble to answer", START_LIMIT, is_there);
        asked.with_context(|| child::tail(&fs::read_to_string(&log).unwrap_or_default()))?;
        Ok(pebble)
    }

    /// A file with the certificate of its authority, which is another one each time.
    pub(super) fn root(&self, stop: &Stop) -> anyhow::Result<PathBuf> {
        let path = self.directory.join("issuer.root.pem");
        fs::write(&path, self.ask_for_root(stop)?)?;
        Ok(path)
    }

    fn ask_for_root(&self, stop: &Stop) -> anyhow::Result<String> {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--fail", "--cacert"]);
        command.arg(self.directory.join("pebble.root.pem"));
        command.arg(format!("https://127.0.0.1:{}/roots/0", self.ports.management));
        child::output_of("curl", command, START_LIMIT, stop)
    }
}

impl Ports {
    /// Returns ports that were free a moment ago: each side must know the ports of the other before it starts.
    fn free() -> anyhow::Result<Self> {
        let listeners = (0..6).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
        let ports = listeners.iter().map(|listener| Ok(listener.local_addr()?.port()));
        let ports: Vec<u16> = ports.collect::<io::Result<_>>()?;
        let [directory, management, names, http, tls, admin] = ports[..] else { bail!("six ports") };
        Ok(Self { directory, management, names, http, tls, admin })
    }

    fn config(self, authority: &CertificateAuthority) -> serde_json::Value {
        let files = authority.issue("pebble", &["127.0.0.1"]);
        json!({"pebble": {
            "listenAddress": format!("127.0.0.1:{}", self.directory),
            "managementListenAddress": format!("127.0.0.1:{}", self.management),
            "certificate": files.chain,
            "privateKey": files.key,
            "httpPort": self.http,
            "tlsPort": self.tls,
            "ocspResponderURL": "",
            "externalAccountBindingRequired": false,
            "retryAfter": {"authz": 1, "order": 1},
            "keyAlgorithm": "ecdsa",
            "profiles": {"default": {"description": "short", "validityPeriod": LIFETIME.as_secs()}},
        }})
    }
}

/// Certificates live for so long.
const LIFETIME: Duration = Duration::from_mins(1);

const START_LIMIT: Duration = Duration::from_secs(10);
