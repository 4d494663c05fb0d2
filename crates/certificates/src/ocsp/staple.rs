//! Verified OCSP responses.

use std::time::{Duration, SystemTime};

use x509_cert::der::Decode;
use x509_ocsp::{BasicOcspResponse, CertStatus, OcspGeneralizedTime, OcspResponse, OcspResponseStatus};

use super::signature::verify;
use super::subject::SHA1;
use super::{Named, OcspError};

/// A verified OCSP response that states that a certificate is valid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Staple {
    /// The response, in DER, as sent to clients.
    pub der: Vec<u8>,
    /// Start of its validity.
    pub this_update: SystemTime,
    /// End of its validity.
    pub next_update: SystemTime,
}

impl Staple {
    /// Reads the OCSP response for the first certificate of `chain`; the second one is its issuer.
    ///
    /// # Errors
    /// The same errors as [`read`](Self::read), or the chain is too short.
    pub fn of_chain(der: &[u8], chain: &[Vec<u8>], now: SystemTime) -> Result<Self, OcspError> {
        Self::read(der, &Named::of(chain).ok_or(OcspError::IssuerMissing)?, now)
    }

    /// Reads and verifies the response for the certificate `named`.
    ///
    /// # Errors
    /// The response does not state that the certificate is valid at `now`, or its signature is invalid.
    pub fn read(der: &[u8], named: &Named, now: SystemTime) -> Result<Self, OcspError> {
        let whole = OcspResponse::from_der(der).map_err(|_| OcspError::Malformed)?;
        if whole.response_status != OcspResponseStatus::Successful {
            return Err(OcspError::Refused(whole.response_status as u32));
        }
        let bytes = whole.response_bytes.ok_or(OcspError::Malformed)?.response;
        let basic = BasicOcspResponse::from_der(bytes.as_bytes()).map_err(|_| OcspError::Malformed)?;
        verify(&basic, bytes.as_bytes(), &named.issuer, now)?;
        let mut answers = basic.tbs_response_data.responses.iter();
        let answer = answers.find(|answer| is_same(&answer.cert_id, &named.id)).ok_or(OcspError::ForOther)?;
        let this_update = time_of(answer.this_update);
        let next_update = answer.next_update.map_or(this_update + UNSAID, time_of);
        if this_update > now + SKEW || next_update <= now || next_update <= this_update {
            return Err(OcspError::NotCurrent);
        }
        match answer.cert_status {
            CertStatus::Good(_) => Ok(Self { der: der.to_vec(), this_update, next_update }),
            CertStatus::Revoked(_) => Err(OcspError::Revoked),
            CertStatus::Unknown(_) => Err(OcspError::Unknown),
        }
    }
}

/// Returns `true` if `said` identifies the certificate of `own`. Some responders omit the NULL parameters of
/// the digest. A response from a file may use another digest than ours. The issuer or its delegate signed it,
/// so the serial number is enough to identify the certificate.
fn is_same(said: &x509_ocsp::CertId, own: &x509_ocsp::CertId) -> bool {
    let is_of_issuer =
        said.issuer_name_hash == own.issuer_name_hash && said.issuer_key_hash == own.issuer_key_hash;
    said.serial_number == own.serial_number && (is_of_issuer || said.hash_algorithm.oid != SHA1)
}

fn time_of(time: OcspGeneralizedTime) -> SystemTime {
    SystemTime::UNIX_EPOCH + time.0.to_unix_duration()
}

/// Assumed validity of a response without an expiry: a newer one may exist at any time.
const UNSAID: Duration = Duration::from_hours(1);

/// Allowed clock difference to the responder.
const SKEW: Duration = Duration::from_mins(5);
