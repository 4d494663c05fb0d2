//! Verifies the signatures of OCSP responses. The signer is the issuer of the certificate, or a responder
//! to which the issuer delegates OCSP responses (RFC 6960 §4.2.2.2).

use std::time::{Duration, SystemTime};

use rustls::crypto::aws_lc_rs::default_provider;
use x509_cert::Certificate;
use x509_cert::der::asn1::{BitString, ObjectIdentifier};
use x509_cert::der::{AnyRef, Decode, Encode, Reader, SliceReader};
use x509_cert::ext::pkix::ExtendedKeyUsage;
use x509_cert::spki::AlgorithmIdentifierOwned;
use x509_ocsp::BasicOcspResponse;

use super::OcspError;

/// Verifies that the signer of `response` is `issuer`, or an authorized responder with a certificate that
/// is valid at `now`. `der` is the encoded `response`.
pub(super) fn verify(
    response: &BasicOcspResponse,
    der: &[u8],
    issuer: &Certificate,
    now: SystemTime,
) -> Result<(), OcspError> {
    let message = first_within(der).ok_or(OcspError::Malformed)?;
    let is_signed_by =
        |signer: &Certificate| is_signed(signer, &response.signature_algorithm, message, &response.signature);
    let mut others = response.certs.iter().flatten();
    if is_signed_by(issuer) || others.any(|other| may_answer(other, issuer, now) && is_signed_by(other)) {
        Ok(())
    } else {
        Err(OcspError::SignatureInvalid)
    }
}

/// Returns `true` if `issuer` authorizes the owner of `certificate` to sign OCSP responses.
fn may_answer(certificate: &Certificate, issuer: &Certificate, now: SystemTime) -> bool {
    let contents = &certificate.tbs_certificate;
    let usage = contents.get::<ExtendedKeyUsage>().ok().flatten();
    let validity = contents.validity;
    let at = |time: Duration| SystemTime::UNIX_EPOCH + time;
    let is_valid = (at(validity.not_before.to_unix_duration())..=at(validity.not_after.to_unix_duration()))
        .contains(&now);
    usage.is_some_and(|(_, usage)| usage.0.contains(&OCSP_SIGNING))
        && is_valid
        && is_issued_by(certificate, issuer)
}

/// Returns `true` if `certificate` names `issuer`, and the key of `issuer` signed it. Ignores the periods in which the
/// certificates are valid.
pub(crate) fn is_issued_by(certificate: &Certificate, issuer: &Certificate) -> bool {
    let message = certificate.to_der().ok();
    let message = message.as_deref().and_then(first_within);
    certificate.tbs_certificate.issuer == issuer.tbs_certificate.subject
        && message.is_some_and(|message| {
            is_signed(issuer, &certificate.signature_algorithm, message, &certificate.signature)
        })
}

/// Returns `true` if the key of `signer` signed `message`.
fn is_signed(
    signer: &Certificate,
    algorithm: &AlgorithmIdentifierOwned,
    message: &[u8],
    signature: &BitString,
) -> bool {
    let key = &signer.tbs_certificate.subject_public_key_info;
    let (Some(of_signature), Some(of_key)) = (contents_of(algorithm), contents_of(&key.algorithm)) else {
        return false;
    };
    let algorithms = default_provider().signature_verification_algorithms.all;
    algorithms.iter().any(|known| {
        *known.signature_alg_id() == *of_signature
            && *known.public_key_alg_id() == *of_key
            && known
                .verify_signature(key.subject_public_key.raw_bytes(), message, signature.raw_bytes())
                .is_ok()
    })
}

/// Returns the DER encoding of `algorithm` without the header of the outer SEQUENCE. rustls stores
/// algorithm identifiers without this header.
fn contents_of(algorithm: &AlgorithmIdentifierOwned) -> Option<Vec<u8>> {
    let der = algorithm.to_der().ok()?;
    Some(AnyRef::from_der(&der).ok()?.value().to_vec())
}

/// Returns the first element of a SEQUENCE, still encoded. In certificates and OCSP responses, this element
/// is the signed part.
fn first_within(der: &[u8]) -> Option<&[u8]> {
    let value = AnyRef::from_der(der).ok()?.value();
    SliceReader::new(value).ok()?.tlv_bytes().ok()
}

/// Extended key usage of certificates that may sign OCSP responses (`id-kp-OCSPSigning`).
const OCSP_SIGNING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.9");
