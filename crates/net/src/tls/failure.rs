//! Why there is no connection in TLS.

use std::fmt;
use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use crate::buffers::PooledBuffer;

/// Why a handshake has failed.
#[derive(Debug)]
pub enum HandshakeError {
    /// The connection ended before.
    Ended,
    /// The connection failed.
    Io(io::Error),
    /// What came from the client is HTTP without TLS, from its first octet on.
    PlainHttp(PooledBuffer),
    /// A rule of TLS is broken, or what is wanted does not go together.
    Refused(Error),
    /// It did not come to its end in time, or not before the drain.
    TimedOut,
}

/// The same in so few words that those who count failures can tell them apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TlsFailure {
    /// The certificate is not valid any more.
    CertificateExpired,
    /// The certificate is for other names.
    CertificateForOtherName,
    /// The certificate cannot be read, or not be used for this.
    CertificateInvalid,
    /// The certificate will be valid later.
    CertificateNotYetValid,
    /// The certificate is from nobody who is trusted.
    CertificateUnknownIssuer,
    /// The connection ended before the handshake did.
    Ended,
    /// Both have no protocol, version or algorithm in common.
    Incompatible,
    /// What answers does not speak TLS.
    NotTls,
    /// The other end breaks a rule of TLS.
    Protocol,
    /// The other end has refused, with this alert.
    Refused(AlertName),
    /// It took too long.
    TimedOut,
}

/// The name of an alert (RFC 8446 §6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AlertName(&'static str);

impl HandshakeError {
    /// The same, told apart.
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
            // The second is of an issuer with the name of one who is trusted.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                Self::CertificateUnknownIssuer
            }
            _ => Self::CertificateInvalid,
        }
    }

    /// Whether the other end has refused because it speaks none of the protocols that were offered (ALPN).
    pub fn is_no_protocol(self) -> bool {
        self == Self::Refused(AlertName(name_of(AlertDescription::NoApplicationProtocol)))
    }

    const fn message(self) -> &'static str {
        match self {
            Self::CertificateExpired => "the certificate has expired",
            Self::CertificateForOtherName => "the certificate is for other names",
            Self::CertificateInvalid => "the certificate is invalid",
            Self::CertificateNotYetValid => "the certificate is not valid yet",
            Self::CertificateUnknownIssuer => "the certificate is from nobody who is trusted",
            Self::Ended => "the connection ended in the handshake of TLS",
            Self::Incompatible => "no version, algorithm or protocol of TLS is common to both",
            Self::NotTls => "TLS is not spoken there",
            Self::Protocol => "a rule of TLS is broken",
            Self::Refused(_) => "TLS was refused with the alert",
            Self::TimedOut => "the handshake of TLS took too long",
        }
    }
}

/// The names that are met; others are as rare as they are telling.
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
        _ => "of another kind",
    }
}

/// A connection that breaks a rule of TLS fails as one of the system does.
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
