//! Makes certificates with `openssl`. They have the lifetimes and key usages of certificates that public
//! authorities issue, because the TLS test tools check both.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::child;
use crate::stop::Stop;

/// A certificate authority for one run.
pub(super) struct Authority<'s> {
    directory: PathBuf,
    stop: &'s Stop,
}

/// The type of a key.
#[derive(Clone, Copy)]
pub(super) enum Key {
    P256,
    Rsa,
}

impl<'s> Authority<'s> {
    /// Creates an authority with its files in `directory`.
    pub(super) fn new(directory: &Path, stop: &'s Stop) -> anyhow::Result<Self> {
        let new = Self { directory: directory.to_owned(), stop };
        new.openssl(Key::P256, directory, "root", &["keyUsage=critical,keyCertSign,cRLSign"])?;
        Ok(new)
    }

    /// Returns the path of the root certificate.
    pub(super) fn root(&self) -> PathBuf {
        self.directory.join("root.pem")
    }

    /// Writes `www.pem` and `www.key` into `directory`.
    pub(super) fn issue_server(&self, key: Key, directory: &Path) -> anyhow::Result<()> {
        self.issue(key, directory, "www", &format!("DNS:{HOST},IP:127.0.0.1"), "serverAuth")
    }

    /// Writes `client.pem` and `client.key` into `directory`.
    pub(super) fn issue_client(&self, key: Key, directory: &Path) -> anyhow::Result<()> {
        self.issue(key, directory, "client", "email:client@www.example", "clientAuth")
    }

    fn issue(&self, key: Key, directory: &Path, name: &str, names: &str, usage: &str) -> anyhow::Result<()> {
        let (names, usage) = (format!("subjectAltName={names}"), format!("extendedKeyUsage={usage}"));
        let basic = ["basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature"];
        self.openssl(key, directory, name, &[basic[0], basic[1], &names, &usage])
    }

    /// Creates a key and a certificate with these extensions.
    fn openssl(&self, key: Key, directory: &Path, name: &str, extensions: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-noenc", "-sha256", "-days", "90", "-subj", &format!("/CN={name}")]);
        match key {
            Key::P256 => command.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]),
            Key::Rsa => command.args(["-newkey", "rsa:2048"]),
        };
        command.args(extensions.iter().flat_map(|extension| ["-addext", extension]));
        let file = directory.join(name).with_added_extension("pem");
        command.arg("-keyout").arg(file.with_extension("key")).arg("-out").arg(&file);
        let root = self.root();
        if file != root {
            command.arg("-CA").arg(&root).arg("-CAkey").arg(root.with_extension("key"));
        }
        child::output_of("openssl req", command, LIMIT, self.stop).map(drop)
    }
}

/// The host name in server certificates.
pub(super) const HOST: &str = "www.example";

/// Generating an RSA key can take seconds.
const LIMIT: Duration = Duration::from_secs(30);
