//! Who a certificate is for.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use super::certificates::Validity;

/// The identity in a certificate of the other end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerCertificate {
    /// The subject as text (RFC 4514): `CN=client,O=Example`. Empty if there is none, or it cannot be read.
    pub subject: String,
    /// The issuer as text.
    pub issuer: String,
    /// Names beside the subject: of hosts, mail addresses, URIs and IP addresses, as text.
    pub names: Vec<String>,
    /// The serial number, in hexadecimal.
    pub serial: String,
    /// The SHA-256 digest of the certificate, in hexadecimal.
    pub fingerprint: String,
    /// The certificate in DER.
    pub der: Vec<u8>,
}

/// What is read of a certificate.
pub(super) struct Contents {
    subject: String,
    issuer: String,
    pub(super) names: Vec<String>,
    serial: String,
    pub(super) validity: Validity,
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
            Ok(Some((_, SubjectAltName(names)))) => names.iter().filter_map(text_of).collect(),
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
        })
    }
}

fn since_epoch(duration: Duration) -> SystemTime {
    SystemTime::UNIX_EPOCH + duration
}

/// A name, if it is of a kind that has a text.
fn text_of(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::DnsName(name)
        | GeneralName::Rfc822Name(name)
        | GeneralName::UniformResourceIdentifier(name) => Some(name.to_string()),
        GeneralName::IpAddress(octets) => {
            let octets = octets.as_bytes();
            let address = <[u8; 4]>::try_from(octets).map(IpAddr::from);
            address
                .or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from))
                .ok()
                .map(|address| address.to_string())
        }
        _ => None,
    }
}

pub(super) fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::with_capacity(2 * octets.len()), |mut text, octet| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{octet:02x}");
        text
    })
}
