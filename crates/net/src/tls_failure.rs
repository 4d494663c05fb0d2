//! Kinds of TLS failures, for counters and logs. They exist without the feature `tls` too, so that the counters of
//! a worker do not depend on it.

use std::fmt;

/// Kind of a TLS failure, for counters and logs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TlsFailure {
    /// The certificate has expired.
    CertificateExpired,
    /// The certificate does not contain the requested host name.
    CertificateForOtherName,
    /// The certificate is malformed or has a problem that the other kinds do not describe.
    CertificateInvalid,
    /// The client has sent no certificate, but the server requires one.
    CertificateMissing,
    /// The certificate is not valid yet.
    CertificateNotYetValid,
    /// No trusted issuer has signed the certificate.
    CertificateUnknownIssuer,
    /// The connection ended during the handshake.
    Ended,
    /// The two peers have no TLS version, algorithm or protocol (ALPN) in common.
    Incompatible,
    /// The peer does not use TLS.
    NotTls,
    /// The peer broke a rule of TLS.
    Protocol,
    /// The peer rejected the handshake. Contains the name of the alert from the peer.
    Refused(AlertName),
    /// The handshake exceeded the timeout.
    TimedOut,
}

/// Name of a TLS alert (RFC 8446 §6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AlertName(pub(crate) &'static str);

impl TlsFailure {
    /// Names of all kinds, for metrics.
    pub const NAMES: [&'static str; 12] = [
        "certificate_expired",
        "certificate_for_other_name",
        "certificate_invalid",
        "certificate_missing",
        "certificate_not_yet_valid",
        "certificate_unknown_issuer",
        "ended",
        "incompatible",
        "not_tls",
        "protocol",
        "alert_received",
        "timed_out",
    ];

    /// Returns the position of the kind in [`NAMES`](Self::NAMES).
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::CertificateExpired => 0,
            Self::CertificateForOtherName => 1,
            Self::CertificateInvalid => 2,
            Self::CertificateMissing => 3,
            Self::CertificateNotYetValid => 4,
            Self::CertificateUnknownIssuer => 5,
            Self::Ended => 6,
            Self::Incompatible => 7,
            Self::NotTls => 8,
            Self::Protocol => 9,
            Self::Refused(_) => 10,
            Self::TimedOut => 11,
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::CertificateExpired => "the certificate has expired",
            Self::CertificateForOtherName => "the certificate does not contain the requested name",
            Self::CertificateInvalid => "the certificate is invalid",
            Self::CertificateMissing => "the client has sent no certificate",
            Self::CertificateNotYetValid => "the certificate is not valid yet",
            Self::CertificateUnknownIssuer => "the certificate issuer is not trusted",
            Self::Ended => "the connection ended during the TLS handshake",
            Self::Incompatible => "the two peers have no TLS version, algorithm or protocol in common",
            Self::NotTls => "the peer does not use TLS",
            Self::Protocol => "the peer broke a rule of TLS",
            Self::Refused(_) => "the peer refused TLS with the alert",
            Self::TimedOut => "the TLS handshake took too long",
        }
    }
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())?;
        match self {
            Self::Refused(AlertName(name)) => write!(f, " {name}"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for TlsFailure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_name() {
        use TlsFailure as F;
        let kinds = [
            F::CertificateExpired,
            F::CertificateForOtherName,
            F::CertificateInvalid,
            F::CertificateMissing,
            F::CertificateNotYetValid,
            F::CertificateUnknownIssuer,
            F::Ended,
            F::Incompatible,
            F::NotTls,
            F::Protocol,
            F::Refused(AlertName("other")),
            F::TimedOut,
        ];
        assert!(kinds.iter().enumerate().all(|(place, kind)| kind.index() == place));
        assert_eq!(kinds.len(), F::NAMES.len());
    }
}
