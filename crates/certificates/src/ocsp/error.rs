//! Why nothing is said of a certificate.

use std::fmt;

use thruway_client::ClientError;

/// Why nothing is said of a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OcspError {
    /// It is about another certificate.
    ForOther,
    /// The chain has no issuer, so that no responder is known.
    IssuerMissing,
    /// The response is malformed.
    Malformed,
    /// It is too old, or from the future.
    NotCurrent,
    /// The responder has none, for the reason with this number (RFC 6960 §4.2.1).
    Refused(u32),
    /// The certificate is revoked.
    Revoked,
    /// The signer is not authorized.
    SignatureInvalid,
    /// The responder answers with this status.
    Status(u16),
    /// The responder cannot be asked.
    Unreachable(ClientError),
    /// The responder does not know the certificate.
    Unknown,
}

impl fmt::Display for OcspError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForOther => f.write_str("the answer is about another certificate"),
            Self::IssuerMissing => f.write_str("the chain has no issuer that could have signed it"),
            Self::Malformed => f.write_str("the response is not a valid OCSP response"),
            Self::NotCurrent => f.write_str("the answer is too old, or from the future"),
            Self::Refused(reason) => write!(f, "the responder has no answer: reason {reason}"),
            Self::Revoked => f.write_str("the certificate is revoked"),
            Self::SignatureInvalid => f.write_str("the answer is signed by nobody who may"),
            Self::Status(status) => write!(f, "the responder answers with {status}"),
            Self::Unreachable(error) => write!(f, "the responder cannot be asked: {error}"),
            Self::Unknown => f.write_str("the responder does not know the certificate"),
        }
    }
}

impl std::error::Error for OcspError {}
