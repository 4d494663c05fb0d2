//! What was answered, once it is verified.

use std::time::{Duration, SystemTime};

use x509_cert::der::Decode;
use x509_ocsp::{BasicOcspResponse, CertStatus, OcspGeneralizedTime, OcspResponse, OcspResponseStatus};

use super::signature::verify;
use super::{OcspError, Subject};

/// That a certificate is good.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Staple {
    /// The answer, as clients are given it.
    pub der: Vec<u8>,
    /// From then on.
    pub this_update: SystemTime,
    /// Until then.
    pub next_update: SystemTime,
}

impl Staple {
    /// Reads what the responder of `subject` has answered.
    ///
    /// # Errors
    /// It does not say that the certificate is good at `now`, or is not to be believed.
    pub fn read(der: &[u8], subject: &Subject, now: SystemTime) -> Result<Self, OcspError> {
        let whole = OcspResponse::from_der(der).map_err(|_| OcspError::Malformed)?;
        if whole.response_status != OcspResponseStatus::Successful {
            return Err(OcspError::Refused(whole.response_status as u32));
        }
        let octets = whole.response_bytes.ok_or(OcspError::Malformed)?.response;
        let basic = BasicOcspResponse::from_der(octets.as_bytes()).map_err(|_| OcspError::Malformed)?;
        verify(&basic, octets.as_bytes(), &subject.issuer, now)?;
        let mut answers = basic.tbs_response_data.responses.iter();
        let answer =
            answers.find(|answer| is_same(&answer.cert_id, &subject.id)).ok_or(OcspError::ForOther)?;
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

/// Whether both are of the same certificate. Some leave out that the digest has no parameters.
fn is_same(one: &x509_ocsp::CertId, other: &x509_ocsp::CertId) -> bool {
    one.hash_algorithm.oid == other.hash_algorithm.oid
        && one.issuer_name_hash == other.issuer_name_hash
        && one.issuer_key_hash == other.issuer_key_hash
        && one.serial_number == other.serial_number
}

fn time_of(time: OcspGeneralizedTime) -> SystemTime {
    SystemTime::UNIX_EPOCH + time.0.to_unix_duration()
}

/// How long an answer is good that does not say it: there may always be a newer one.
const UNSAID: Duration = Duration::from_hours(1);

/// How far the clock of the responder may be ahead.
const SKEW: Duration = Duration::from_mins(5);
