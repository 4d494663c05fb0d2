//! Whether a certificate passes.

use thruway_server::{CertificateName, PeerCertificate};

use super::{CertificateMatch, ClientCertificateConfig};

/// Whether one of those that are allowed is `certificate`, or all are.
pub(super) fn is_allowed(config: &ClientCertificateConfig, certificate: &PeerCertificate) -> bool {
    config.allow.as_ref().is_none_or(|allowed| allowed.iter().any(|allowed| allowed.applies(certificate)))
}

impl CertificateMatch {
    fn applies(&self, certificate: &PeerCertificate) -> bool {
        match self {
            Self::Fingerprint(fingerprint) => fingerprint.0 == certificate.fingerprint,
            Self::Name(name) => certificate.names.iter().any(|shown| is_same(name, shown)),
            Self::Subject(subject) => *subject == certificate.subject,
        }
    }
}

/// Names of hosts are the same in capital letters (RFC 4343), and so are those in mail addresses; what stands before `@` need not be.
fn is_same(name: &CertificateName, other: &CertificateName) -> bool {
    match (name, other) {
        (CertificateName::Dns(name), CertificateName::Dns(other)) => name.eq_ignore_ascii_case(other),
        (CertificateName::Email(name), CertificateName::Email(other)) => {
            match (name.rsplit_once('@'), other.rsplit_once('@')) {
                (Some((user, host)), Some((other_user, other_host))) => {
                    user == other_user && host.eq_ignore_ascii_case(other_host)
                }
                _ => false,
            }
        }
        (name, other) => name == other,
    }
}
