//! Reads the subject, the names and the validity of a certificate.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::str::FromStr as _;
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::RdnSequence;
use x509_cert::{Certificate, Version};

use crate::tls_info::{CertificateName, PeerCertificate};

/// Period in which a certificate is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Validity {
    /// The start of the period.
    pub not_before: SystemTime,
    /// The end of the period.
    pub not_after: SystemTime,
}

/// Converts the subject in `text` to the form that [`PeerCertificate::subject`] has (RFC 4514). Equal
/// subjects then have equal text. Returns `None` if `text` is invalid or empty.
pub fn normal_subject(text: &str) -> Option<String> {
    let subject = RdnSequence::from_str(text).ok()?.to_string();
    // Rejects a value that is not valid text. The parser would convert the value to hexadecimal digits
    // (`=#…`). Such a value would match no certificate.
    let is_read = text.contains("=#") || !subject.contains("=#");
    Some(subject).filter(|subject| !subject.is_empty() && is_read)
}

/// Parsed fields of a certificate.
pub(super) struct Contents {
    subject: String,
    issuer: String,
    pub(super) names: Vec<CertificateName>,
    serial: String,
    pub(super) validity: Validity,
    /// The X.509 version, from 1 to 3.
    pub(super) version: u8,
}

impl PeerCertificate {
    pub(super) fn of(der: &CertificateDer<'_>) -> Self {
        let contents = Contents::read(der);
        let (subject, issuer, names, serial) = contents
            .map(|contents| (contents.subject, contents.issuer, contents.names, contents.serial))
            .unwrap_or_default();
        let fingerprint = hex(&Sha256::digest(der));
        Self { subject, issuer, names, serial, fingerprint, der: der.to_vec() }
    }
}

impl Contents {
    /// Parses a certificate in DER. Returns `None` if the certificate is malformed.
    pub(super) fn read(der: &[u8]) -> Option<Self> {
        let certificate = Certificate::from_der(der).ok()?.tbs_certificate;
        let names = match certificate.get::<SubjectAltName>() {
            Ok(Some((_, SubjectAltName(names)))) => names.iter().filter_map(CertificateName::of).collect(),
            Ok(None) => Vec::new(),
            Err(_) => return None,
        };
        let validity = certificate.validity;
        Some(Self {
            subject: certificate.subject.to_string(),
            issuer: certificate.issuer.to_string(),
            names,
            serial: hex(certificate.serial_number.as_bytes()),
            validity: Validity {
                not_before: since_epoch(validity.not_before.to_unix_duration()),
                not_after: since_epoch(validity.not_after.to_unix_duration()),
            },
            version: match certificate.version {
                Version::V1 => 1,
                Version::V2 => 2,
                Version::V3 => 3,
            },
        })
    }
}

fn since_epoch(duration: Duration) -> SystemTime {
    SystemTime::UNIX_EPOCH + duration
}

impl CertificateName {
    /// Converts `name`. Returns `None` if the name cannot be written as text.
    fn of(name: &GeneralName) -> Option<Self> {
        match name {
            GeneralName::DnsName(name) => Some(Self::Dns(name.to_string())),
            GeneralName::Rfc822Name(name) => Some(Self::Email(name.to_string())),
            GeneralName::UniformResourceIdentifier(name) => Some(Self::Uri(name.to_string())),
            GeneralName::IpAddress(bytes) => {
                let bytes = bytes.as_bytes();
                let address = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
                address.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok().map(Self::Ip)
            }
            _ => None,
        }
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_is_normalized_or_rejected() {
        for (text, expected) in [
            ("CN=ada,O=Example", Some("CN=ada,O=Example")),
            ("cn=ada,o=Example", Some("CN=ada,O=Example")),
            ("CN=a\\,O\\=b", Some("CN=a\\,O=b")),
            ("2.5.4.3=ada", Some("CN=ada")),
            ("", None),
            ("ada", None),
            ("CN", None),
            ("CN=ada, O=Example", None),
            ("NOBODY=ada", None),
            ("CN=#zz", None),
            ("SERIALNUMBER=ab", Some("SERIALNUMBER=ab")),
            // `_` is not allowed in the string type of this attribute.
            ("SERIALNUMBER=a_b", None),
        ] {
            assert_eq!(normal_subject(text).as_deref(), expected, "{text}");
        }
    }
}
