//! Why cannot fetch an OCSP response.

use std::fmt;

use thruway_client::ClientError;

/// Why cannot fetch an OCSP response.
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
