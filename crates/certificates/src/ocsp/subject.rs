//! Creates OCSP requests, and finds the URL of the responder.

use sha1::{Digest, Sha1};
use thruway_client::Url;
use x509_cert::Certificate;
use x509_cert::der::asn1::{Null, ObjectIdentifier, OctetString};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::AuthorityInfoAccessSyntax;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::spki::AlgorithmIdentifierOwned;
use x509_ocsp::{CertId, OcspRequest, Request, TbsRequest};

/// A certificate, the request for its OCSP status, and the responder.
#[derive(Clone)]
pub struct Subject {
    /// URL of the responder.
    pub responder: String,
    /// The request, in DER.
    pub request: Vec<u8>,
    pub(super) named: Named,
}

/// OCSP identifier of a certificate, and the certificate of the issuer.
#[derive(Clone)]
pub struct Named {
    pub(super) id: CertId,
    pub(super) issuer: Certificate,
}

impl Named {
    /// Returns the OCSP identifier of the first certificate of `chain`. The second certificate of `chain`
    /// must be the issuer of the first. Returns `None` if the chain has fewer than two certificates, or
    /// contains a malformed certificate.
    pub fn of(chain: &[Vec<u8>]) -> Option<Self> {
        let [certificate, issuer, ..] = chain else { return None };
        let certificate = Certificate::from_der(certificate).ok()?;
        let issuer = Certificate::from_der(issuer).ok()?;
        let id = id_of(&certificate, &issuer)?;
        Some(Self { id, issuer })
    }
}

impl Subject {
    /// Returns the OCSP request for the first certificate of `chain`. Returns `None` if [`Named::of`]
    /// returns `None`, or if the certificate contains no `http` URL of a responder.
    pub fn of(chain: &[Vec<u8>]) -> Option<Self> {
        let named = Named::of(chain)?;
        let responder = responder_of(&Certificate::from_der(chain.first()?).ok()?)?;
        let request = Request { req_cert: named.id.clone(), single_request_extensions: None };
        let tbs_request = TbsRequest { request_list: vec![request], ..TbsRequest::default() };
        let request = OcspRequest { tbs_request, optional_signature: None }.to_der().ok()?;
        Some(Self { responder, request, named })
    }
}

/// Returns the first `http` URL of an OCSP responder in the certificate (RFC 5280 §4.2.2.1).
fn responder_of(certificate: &Certificate) -> Option<String> {
    let (_, access) = certificate.tbs_certificate.get::<AuthorityInfoAccessSyntax>().ok()??;
    let mut places = access.0.into_iter().filter(|description| description.access_method == OCSP);
    places.find_map(|description| match description.access_location {
        GeneralName::UniformResourceIdentifier(url) if is_http(url.as_str()) => Some(url.to_string()),
        _ => None,
    })
}

/// Returns `true` if `url` is an `http` URL. OCSP does not need TLS, because responders sign their
/// responses.
fn is_http(url: &str) -> bool {
    Url::for_request(url).is_ok_and(|url| !url.is_https())
}

/// Returns the OCSP identifier of a certificate. Uses SHA-1, the only digest that all responders support
/// (RFC 5019 §2.1.1). Security does not depend on this digest.
fn id_of(certificate: &Certificate, issuer: &Certificate) -> Option<CertId> {
    let key = &issuer.tbs_certificate.subject_public_key_info.subject_public_key;
    let name = certificate.tbs_certificate.issuer.to_der().ok()?;
    let digest = |bytes: &[u8]| OctetString::new(Sha1::digest(bytes).to_vec());
    Some(CertId {
        hash_algorithm: AlgorithmIdentifierOwned { oid: SHA1, parameters: Some(Null.into()) },
        issuer_name_hash: digest(&name).ok()?,
        issuer_key_hash: digest(key.raw_bytes()).ok()?,
        serial_number: certificate.tbs_certificate.serial_number.clone(),
    })
}

pub(super) const SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");

/// Access method of OCSP responders in certificates (`id-ad-ocsp`).
const OCSP: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1");
