//! Errors of OCSP requests.

use std::fmt;

use thruway_client::ClientError;

/// Reason why an OCSP response is missing or unusable.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OcspError {
    /// The response is for a different certificate than the request.
    ForOther,
    /// The chain contains no issuer certificate, so the response cannot be verified.
    IssuerMissing,
    /// The response is malformed.
    Malformed,
    /// The response has expired, or its validity starts in the future.
    NotCurrent,
    /// The responder refused the request. Contains the OCSP response status (RFC 6960 §4.2.1).
    Refused(u32),
    /// The certificate is revoked.
    Revoked,
    /// The signature of the response is invalid, or the signer is not authorized.
    SignatureInvalid,
    /// The responder returned an HTTP status other than 200. Contains the HTTP status.
    Status(u16),
    /// The request failed or timed out. Contains the error of the HTTP client.
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
            Self::Refused(reason) => write!(f, "the responder returned the OCSP error status {reason}"),
            Self::Revoked => f.write_str("the certificate is revoked"),
            Self::SignatureInvalid => {
                f.write_str("the response has an invalid signature or an unauthorized signer")
            }
            Self::Status(status) => write!(f, "the responder returned the HTTP status {status}"),
            Self::Unreachable(error) => write!(f, "cannot reach the responder: {error}"),
            Self::Unknown => f.write_str("the responder does not know the certificate"),
        }
    }
}

impl std::error::Error for OcspError {}
