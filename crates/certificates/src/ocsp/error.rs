//! Errors of OCSP requests.

use std::fmt;

use thruway_client::ClientError;

/// Reason why there is no OCSP response.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OcspError {
    /// The response is for another certificate.
    ForOther,
    /// The chain has no issuer, so the responder is unknown.
    IssuerMissing,
    /// The response is malformed.
    Malformed,
    /// The response has expired, or starts in the future.
    NotCurrent,
    /// The responder refuses, with this status (RFC 6960 §4.2.1).
    Refused(u32),
    /// The certificate is revoked.
    Revoked,
    /// The signer is not authorized.
    SignatureInvalid,
    /// The responder responded with this HTTP status.
    Status(u16),
    /// The responder is unreachable.
    Unreachable(ClientError),
    /// The responder does not know the certificate.
    Unknown,
}

impl fmt::Display for OcspError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForOther => f.write_str("the response is for another certificate"),
            Self::IssuerMissing => f.write_str("the chain has no issuer certificate"),
            Self::Malformed => f.write_str("the response is not a valid OCSP response"),
            Self::NotCurrent => f.write_str("the response has expired or is not valid yet"),
            Self::Refused(reason) => write!(f, "the responder returned the error {reason}"),
            Self::Revoked => f.write_str("the certificate is revoked"),
            Self::SignatureInvalid => f.write_str("the signer of the response is not authorized"),
            Self::Status(status) => write!(f, "the responder returned status {status}"),
            Self::Unreachable(error) => write!(f, "cannot reach the responder: {error}"),
            Self::Unknown => f.write_str("the responder does not know the certificate"),
        }
    }
}

impl std::error::Error for OcspError {}
