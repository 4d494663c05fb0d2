//! Who a certificate is for.

use std::fmt::{self, Write as _};
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

/// The identity in a certificate of the other end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerCertificate {
    /// The subject as text (RFC 4514): `CN=client,O=Example`. Empty if there is none, or it cannot be read.
    pub subject: String,
    /// The issuer as text.
    pub issuer: String,
    /// Names beside the subject, of the kinds that have a text.
    pub names: Vec<CertificateName>,
    /// The serial number, in hexadecimal.
    pub serial: String,
    /// The SHA-256 digest of the certificate, in hexadecimal.
    pub fingerprint: String,
    /// The certificate in DER.
    pub der: Vec<u8>,
}

/// When a certificate is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Validity {
    /// From then on.
    pub not_before: SystemTime,
    /// Until then.
    pub not_after: SystemTime,
}

/// A name in a certificate, beside its subject (RFC 5280 §4.2.1.6). What is a name of one kind is none of
/// another.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum CertificateName {
    /// That of a host.
    Dns(String),
    /// A mail address.
    Email(String),
    /// An IP address.
    Ip(IpAddr),
    /// A URI.
    Uri(String),
}

/// `text` as [`PeerCertificate::subject`] has it, of which there is one way for each subject (RFC 4514).
/// `None` if it is no subject, or an empty one.
pub fn normal_subject(text: &str) -> Option<String> {
    let subject = RdnSequence::from_str(text).ok()?.to_string();
    // What cannot be read as text would be shown as hexadecimal digits, as no certificate's is.
    let is_read = text.contains("=#") || !subject.contains("=#");
    Some(subject).filter(|subject| !subject.is_empty() && is_read)
}

/// What is read of a certificate.
pub(super) struct Contents {
    subject: String,
    issuer: String,
    pub(super) names: Vec<CertificateName>,
    serial: String,
    pub(super) validity: Validity,
    /// Version of X.509, from 1 to 3.
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
    /// What `der` says; `None` if it is no certificate.
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
    /// `name`, if it is of a kind that has a text.
    fn of(name: &GeneralName) -> Option<Self> {
        match name {
            GeneralName::DnsName(name) => Some(Self::Dns(name.to_string())),
            GeneralName::Rfc822Name(name) => Some(Self::Email(name.to_string())),
            GeneralName::UniformResourceIdentifier(name) => Some(Self::Uri(name.to_string())),
            GeneralName::IpAddress(octets) => {
                let octets = octets.as_bytes();
                let address = <[u8; 4]>::try_from(octets).map(IpAddr::from);
                address.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok().map(Self::Ip)
            }
            _ => None,
        }
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) | Self::Email(name) | Self::Uri(name) => f.write_str(name),
            Self::Ip(address) => address.fmt(f),
        }
    }
}

pub(super) fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::with_capacity(2 * octets.len()), |mut text, octet| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{octet:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_written_in_one_way() {
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
            // No text of that kind.
            ("SERIALNUMBER=a_b", None),
        ] {
            assert_eq!(normal_subject(text).as_deref(), expected, "{text}");
        }
    }
}
