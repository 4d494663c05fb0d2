//! Errors of TLS handshakes.

use std::fmt;
use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use crate::buffers::PooledBuffer;

/// Reason why a TLS handshake failed.
#[derive(Debug)]
pub enum HandshakeError {
    /// The connection ended during the handshake.
    Ended,
    /// The connection failed.
    Io(io::Error),
    /// The client sent HTTP without TLS. Contains the received bytes.
    PlainHttp(PooledBuffer),
    /// The TLS library reported an error. Possible causes are an alert or an invalid certificate from the
    /// peer, a protocol violation by the peer, or incompatible settings of the two peers.
    Refused(Error),
    /// The handshake did not end within the timeout, or a graceful shutdown started before the handshake
    /// ended.
    TimedOut,
}

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
pub struct AlertName(&'static str);

impl HandshakeError {
    /// Returns the kind of the failure.
    pub fn failure(&self) -> TlsFailure {
        match self {
            Self::Ended | Self::Io(_) => TlsFailure::Ended,
            Self::PlainHttp(_) => TlsFailure::NotTls,
            Self::Refused(error) => TlsFailure::of(error),
            Self::TimedOut => TlsFailure::TimedOut,
        }
    }
}

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

    fn of(error: &Error) -> Self {
        match error {
            Error::InvalidCertificate(error) => Self::of_certificate(error),
            Error::AlertReceived(alert) => Self::Refused(AlertName(name_of(*alert))),
            Error::NoCertificatesPresented => Self::CertificateMissing,
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Self::Incompatible,
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType
                | InvalidMessage::UnknownProtocolVersion
                | InvalidMessage::MessageTooLarge,
            ) => Self::NotTls,
            _ => Self::Protocol,
        }
    }

    fn of_certificate(error: &CertificateError) -> Self {
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::CertificateExpired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::CertificateNotYetValid
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::CertificateForOtherName
            }
            // `BadSignature` means that the issuer has the name of a trusted issuer, but a different key.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                Self::CertificateUnknownIssuer
            }
            _ => Self::CertificateInvalid,
        }
    }

    /// Returns `true` if the peer rejected the handshake because the peer supports none of the offered
    /// protocols (ALPN).
    pub fn is_no_protocol(self) -> bool {
        self == Self::Refused(AlertName(name_of(AlertDescription::NoApplicationProtocol)))
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

/// Returns the name of an alert, or `other` for rare alerts.
const fn name_of(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::AccessDenied => "access_denied",
        AlertDescription::BadCertificate => "bad_certificate",
        AlertDescription::CertificateExpired => "certificate_expired",
        AlertDescription::CertificateRequired => "certificate_required",
        AlertDescription::CertificateRevoked => "certificate_revoked",
        AlertDescription::CertificateUnknown => "certificate_unknown",
        AlertDescription::DecodeError => "decode_error",
        AlertDescription::DecryptError => "decrypt_error",
        AlertDescription::HandshakeFailure => "handshake_failure",
        AlertDescription::InternalError => "internal_error",
        AlertDescription::NoApplicationProtocol => "no_application_protocol",
        AlertDescription::ProtocolVersion => "protocol_version",
        AlertDescription::UnknownCA => "unknown_ca",
        AlertDescription::UnrecognisedName => "unrecognized_name",
        AlertDescription::UnsupportedCertificate => "unsupported_certificate",
        _ => "other",
    }
}

/// Converts a TLS error into an I/O error.
pub(super) fn broken(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
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

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Refused(error) => error.fmt(f),
            _ => self.failure().fmt(f),
        }
    }
}

impl std::error::Error for HandshakeError {}

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
        assert_eq!(F::of(&Error::NoCertificatesPresented), F::CertificateMissing);
    }
}
