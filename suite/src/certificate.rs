//! A certificate for the servers of a suite, the same for all of them: made anew for each run, of a key on
//! the curve P-256.

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
    /// Makes one for this machine.
    pub(crate) fn make() -> anyhow::Result<Self> {
        let made = generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])
            .context("no certificate can be made")?;
        Ok(Self { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() })
    }

    /// Writes it into `directory`: each by itself, and both in one file.
    pub(crate) fn write(&self, directory: &Path) -> anyhow::Result<()> {
        let Self { certificate, key } = self;
        fs::write(directory.join(CERTIFICATE), certificate)?;
        fs::write(directory.join(KEY), key)?;
        Ok(fs::write(directory.join(BOTH), format!("{certificate}{key}"))?)
    }
}

/// Names of the files.
pub(crate) const CERTIFICATE: &str = "certificate.pem";
pub(crate) const KEY: &str = "key.pem";
pub(crate) const BOTH: &str = "certificate-and-key.pem";
