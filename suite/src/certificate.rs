//! The certificate of all servers in a run. Each run creates a new one, with a P-256 key.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use rcgen::generate_simple_self_signed;

/// A certificate and its key, in PEM.
pub(crate) struct Certificate {
    certificate: String,
    key: String,
}

impl Certificate {
    /// Creates a certificate for this machine.
    pub(crate) fn make() -> anyhow::Result<Self> {
        let made = generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])
            .context("cannot create a certificate")?;
        Ok(Self { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() })
    }

    /// Writes the certificate, the key, and a file with both to `directory`.
    pub(crate) fn write(&self, directory: &Path) -> anyhow::Result<()> {
        let Self { certificate, key } = self;
        fs::write(directory.join(CERTIFICATE), certificate)?;
        fs::write(directory.join(KEY), key)?;
        Ok(fs::write(directory.join(BOTH), format!("{certificate}{key}"))?)
    }
}

/// File names.
pub(crate) const CERTIFICATE: &str = "certificate.pem";
pub(crate) const KEY: &str = "key.pem";
pub(crate) const BOTH: &str = "certificate-and-key.pem";
