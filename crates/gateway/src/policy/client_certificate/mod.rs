//! Authentication with client certificates.
//!
//! A listener decides which client certificates it trusts, and verifies them in the TLS handshake. If a
//! listener accepts clients without a certificate, this policy refuses these clients. The policy can also
//! list the accepted certificates, and then refuses clients with other trusted certificates.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use thruway_server::{CertificateName, PeerCertificate, Request};

use super::refusal::Refusal;
use super::verdict::Verdict;

/// Settings of the client certificate policy: the accepted certificates.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ClientCertificateConfig {
    /// Accepted certificates. A certificate is accepted if it matches at least one entry. Default: all
    /// trusted certificates.
    pub allow: Option<Vec<CertificateMatch>>,
}

/// A property of accepted certificates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CertificateMatch {
    /// The certificate with this fingerprint.
    Fingerprint(CertificateFingerprint),
    /// A certificate with a subject alternative name of this kind and value. The case of host names does
    /// not matter.
    Name(CertificateName),
    /// A certificate with this subject, as written by [`normal_subject`](thruway_net::tls::normal_subject).
    Subject(String),
}

/// The SHA-256 digest of a certificate, written as `sha256:` and 64 hexadecimal digits. Colons between
/// pairs of digits are optional.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateFingerprint(String);

/// The error for a text that is not a valid fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidFingerprint;

#[derive(Debug)]
pub(super) struct ClientCertificate {
    config: ClientCertificateConfig,
}

impl ClientCertificate {
    pub(super) const fn new(config: ClientCertificateConfig) -> Self {
        Self { config }
    }

    pub(super) fn decide(&self, request: &Request<'_>) -> Verdict<'static> {
        let Some(certificate) = request.connection().client_certificate() else {
            return Verdict::Refuse(Refusal::Certificate { is_missing: true });
        };
        if is_allowed(&self.config, certificate) {
            Verdict::Continue
        } else {
            Verdict::Refuse(Refusal::Certificate { is_missing: false })
        }
    }
}

/// Returns `true` if `certificate` matches an entry in `config`, or if `config` accepts all certificates.
fn is_allowed(config: &ClientCertificateConfig, certificate: &PeerCertificate) -> bool {
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

/// Compares two names. Ignores the case of host names (RFC 4343), even in mail addresses. In a mail address,
/// the case of the part before `@` matters.
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

impl FromStr for CertificateFingerprint {
    type Err = InvalidFingerprint;

    fn from_str(text: &str) -> Result<Self, InvalidFingerprint> {
        let digits = text.strip_prefix("sha256:").ok_or(InvalidFingerprint)?;
        let digits = digits.replace(':', "").to_ascii_lowercase();
        let is_digest = digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if is_digest { Ok(Self(digits)) } else { Err(InvalidFingerprint) }
    }
}

impl fmt::Display for InvalidFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fingerprint is `sha256:` and 64 hexadecimal digits")
    }
}

impl std::error::Error for InvalidFingerprint {}

impl fmt::Display for ClientCertificateConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a client certificate")?;
        for (place, of) in self.allow.iter().flatten().enumerate() {
            write!(f, "{}{of}", if place == 0 { ": " } else { " or " })?;
        }
        Ok(())
    }
}

impl fmt::Display for CertificateMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fingerprint(CertificateFingerprint(digits)) => write!(f, "sha256:{digits}"),
            Self::Name(CertificateName::Dns(name)) => write!(f, "DNS {name}"),
            Self::Name(CertificateName::Email(name)) => write!(f, "email {name}"),
            Self::Name(CertificateName::Ip(address)) => write!(f, "IP {address}"),
            Self::Name(CertificateName::Uri(name)) => write!(f, "URI {name}"),
            Self::Subject(subject) => f.write_str(subject),
        }
    }
}
