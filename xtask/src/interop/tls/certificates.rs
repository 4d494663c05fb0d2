//! Certificates with the lifetimes and usages of today's authorities, made with `openssl`, because judges
//! check both.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::child;
use crate::stop::Stop;

/// An authority for the duration of a run.
pub(in crate::interop) struct Authority<'s> {
    directory: PathBuf,
    stop: &'s Stop,
}

/// The kind of a key.
#[derive(Clone, Copy)]
pub(in crate::interop) enum Key {
    P256,
    Rsa,
}

impl<'s> Authority<'s> {
    /// A new one, with its files in `directory`.
    pub(in crate::interop) fn new(directory: &Path, stop: &'s Stop) -> anyhow::Result<Self> {
        let new = Self { directory: directory.to_owned(), stop };
        let mut command = request(Key::P256, directory, "root");
        command.args(["-subj", "/CN=authority", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]);
        new.openssl(command)?;
        Ok(new)
    }

    /// The file with its own certificate.
    pub(in crate::interop) fn root(&self) -> PathBuf {
        self.directory.join("root.pem")
    }

    /// Writes `www.pem` and `www.key` into `directory`.
    pub(in crate::interop) fn issue_server(&self, key: Key, directory: &Path) -> anyhow::Result<()> {
        self.issue(key, directory, "www", &format!("subjectAltName=DNS:{HOST},IP:127.0.0.1"), "serverAuth")
    }

    /// Writes `client.pem` and `client.key` into `directory`.
    pub(in crate::interop) fn issue_client(&self, key: Key, directory: &Path) -> anyhow::Result<()> {
        self.issue(key, directory, "client", "subjectAltName=email:client@www.example", "clientAuth")
    }

    fn issue(&self, key: Key, directory: &Path, name: &str, names: &str, usage: &str) -> anyhow::Result<()> {
        let mut command = request(key, directory, name);
        let root = self.root();
        command.arg("-CA").arg(&root).arg("-CAkey").arg(root.with_extension("key"));
        command.args(["-subj", &format!("/CN={name}"), "-addext", names]);
        command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        command.args(["-addext", "keyUsage=critical,digitalSignature"]);
        command.args(["-addext", &format!("extendedKeyUsage={usage}")]);
        self.openssl(command)
    }

    fn openssl(&self, command: Command) -> anyhow::Result<()> {
        child::output_of("openssl req", command, LIMIT, self.stop).map(drop)
    }
}

fn request(key: Key, directory: &Path, name: &str) -> Command {
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-noenc", "-sha256", "-days", "90"]);
    match key {
        Key::P256 => command.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]),
        Key::Rsa => command.args(["-newkey", "rsa:2048"]),
    };
    command.arg("-keyout").arg(directory.join(format!("{name}.key")));
    command.arg("-out").arg(directory.join(format!("{name}.pem")));
    command
}

/// The name that server certificates are for.
pub(super) const HOST: &str = "www.example";

/// To find the primes of a key.
const LIMIT: Duration = Duration::from_secs(30);
