//! Verified OCSP responses.

use std::time::{Duration, SystemTime};

use x509_cert::der::Decode;
use x509_ocsp::{BasicOcspResponse, CertStatus, OcspGeneralizedTime, OcspResponse, OcspResponseStatus};

use super::signature::verify;
use super::subject::SHA1;
use super::{Named, OcspError};

/// A verified OCSP response. The response states that a certificate is not revoked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Staple {
    /// The response, in DER. TLS servers send these bytes to clients.
    pub der: Vec<u8>,
    /// Start of the validity of the response.
    pub this_update: SystemTime,
    /// End of the validity of the response.
    pub next_update: SystemTime,
}

impl Staple {
    /// Reads and verifies the OCSP response for the first certificate of `chain`. The second certificate of
    /// `chain` must be the issuer of the first.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read), or [`OcspError::IssuerMissing`] if the chain has fewer than two
    /// certificates, or contains a malformed certificate.
    pub fn of_chain(der: &[u8], chain: &[Vec<u8>], now: SystemTime) -> Result<Self, OcspError> {
        Self::read(der, &Named::of(chain).ok_or(OcspError::IssuerMissing)?, now)
    }

    /// Reads and verifies the OCSP response for the certificate `named`.
    ///
    /// # Errors
    /// The response is malformed, is not for the certificate `named`, has an invalid signature, or is not
    /// valid at `now`. Also fails if the response states that the certificate is revoked or unknown.
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
        let next_update = answer.next_update.map_or(this_update + NEXT_UPDATE_DEFAULT, time_of);
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

/// Returns `true` if `certificate_id` and `own` identify the same certificate. `certificate_id` is from an
/// OCSP response. The parameters of the digest algorithm are not compared, because some responders omit the
/// NULL parameters. If `certificate_id` contains digests other than SHA-1, as in some response files, only
/// the serial number is compared. The serial number is enough, because the signer of the response is the
/// issuer of the certificate or a delegate of the issuer.
fn is_same(certificate_id: &x509_ocsp::CertId, own: &x509_ocsp::CertId) -> bool {
    let is_of_issuer = certificate_id.issuer_name_hash == own.issuer_name_hash
        && certificate_id.issuer_key_hash == own.issuer_key_hash;
    certificate_id.serial_number == own.serial_number
        && (is_of_issuer || certificate_id.hash_algorithm.oid != SHA1)
}

fn time_of(time: OcspGeneralizedTime) -> SystemTime {
    SystemTime::UNIX_EPOCH + time.0.to_unix_duration()
}

/// Assumed validity of a response without an expiry. The assumed validity is short, because a newer
/// response may exist at any time.
const NEXT_UPDATE_DEFAULT: Duration = Duration::from_hours(1);

/// Tolerated difference between the clocks of the responder and this machine.
const SKEW: Duration = Duration::from_mins(5);
