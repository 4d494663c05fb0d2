//! A certificate for the servers of a suite, the same for all of them: made anew for each run, of a key on
//! the curve P-256.

use std::fs;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, generate_simple_self_signed};

use crate::terminal::Failure;

/// A certificate and its key, in PEM.
pub(crate) struct Certificate {
    certificate: String,
    key: String,
}

impl Certificate {
    /// Makes one for this machine.
    pub(crate) fn make() -> Result<Self, Failure> {
        let unmade = |error| Failure::new(format!("no certificate can be made: {error}"));
        let made = generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]);
        let made: rcgen::CertifiedKey<KeyPair> = made.map_err(unmade)?;
        let certificate = pem("CERTIFICATE", made.cert.der());
        Ok(Self { certificate, key: pem("PRIVATE KEY", &made.signing_key.serialize_der()) })
    }

    /// Writes it into `directory`: each by itself, and both in one file.
    pub(crate) fn write(&self, directory: &Path) -> io::Result<()> {
        let Self { certificate, key } = self;
        fs::write(directory.join(CERTIFICATE), certificate)?;
        fs::write(directory.join(KEY), key)?;
        fs::write(directory.join(BOTH), format!("{certificate}{key}"))
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(LINE).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// Names of the files.
pub(crate) const CERTIFICATE: &str = "certificate.pem";
pub(crate) const KEY: &str = "key.pem";
pub(crate) const BOTH: &str = "certificate-and-key.pem";

/// RFC 7468 §2.
const LINE: usize = 64;

#[cfg(test)]
mod tests {
    use thruway_net::tls::{CertificateFiles, TlsAcceptor, TlsAcceptorConfig};

    use super::*;

    #[test]
    fn what_is_made_can_be_used() {
        let directory = tempfile::tempdir().unwrap();
        Certificate::make().unwrap().write(directory.path()).unwrap();
        for chain in [CERTIFICATE, BOTH] {
            let path = |name: &str| directory.path().join(name);
            let files = CertificateFiles { chain: path(chain), key: path(KEY), ocsp: None };
            TlsAcceptor::load(TlsAcceptorConfig::new(vec![files])).unwrap();
        }
    }
}
