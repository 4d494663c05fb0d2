//! Errors of TLS handshakes.

use std::fmt;
use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use crate::buffers::PooledBuffer;
use crate::tls_failure::{AlertName, TlsFailure};

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
    fn kind_follows_from_the_error_of_the_library() {
        assert_eq!(TlsFailure::of(&Error::NoCertificatesPresented), TlsFailure::CertificateMissing);
        let alert = TlsFailure::of(&Error::AlertReceived(AlertDescription::NoApplicationProtocol));
        assert!(alert.is_no_protocol(), "{alert}");
    }
}
