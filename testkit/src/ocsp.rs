//! OCSP responder (RFC 6960) on a loopback address, for certificates of a test authority. The test chooses
//! its answers, including invalid ones.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use sha1::{Digest, Sha1};
use thruway_net::Clock;
use thruway_net::tls::CertificateFiles;
use thruway_server::{
    Config, ListenAddr, Listener, OwnedRequest, Response, RunningServer, Server, StatusCode, Timeouts,
};
use x509_cert::Certificate;
use x509_cert::der::asn1::{BitString, GeneralizedTime, ObjectIdentifier, OctetString};
use x509_cert::der::{DateTime, Decode, Encode};
use x509_cert::spki::AlgorithmIdentifierOwned;
use x509_ocsp::{
    BasicOcspResponse, CertId, CertStatus, OcspGeneralizedTime, OcspRequest, OcspResponse, ResponderId,
    ResponseData, RevokedInfo, SingleResponse, Version,
};

use crate::authority::CertificateAuthority;
use crate::lock::lock;

/// A running OCSP responder. Dropping it stops the responder.
pub struct OcspResponder {
    state: Arc<State>,
    address: ListenAddr,
    running: Option<RunningServer>,
}

/// Answer of the responder to each request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OcspAnswer {
    /// The certificate is good. The answer is valid from one hour ago, and for this duration from now.
    Good(Duration),
    /// Like `Good`, but signed by a delegated responder.
    GoodFromDelegatedResponder(Duration),
    /// The certificate is good. The certificate id in the answer uses another digest than the id in the
    /// request.
    GoodWithOtherDigest,
    /// The certificate is good. An unauthorized key signs the answer.
    GoodFromUnauthorizedKey,
    /// The answer is about another certificate, which is good.
    GoodForOtherCertificate,
    /// The certificate is revoked.
    Revoked,
    /// The certificate was good, but the answer expired one hour ago.
    Expired,
    /// The certificate is good, but the answer becomes valid tomorrow.
    NotYetValid,
    /// The responder does not know the certificate.
    Unknown,
    /// The OCSP error `tryLater`.
    TryLater,
    /// A body that is not an OCSP response.
    Malformed,
    /// A body that exceeds all size limits.
    Oversized,
    /// The responder never responds.
    NoResponse,
    /// Status 500.
    ServerError,
}

struct State {
    authority: CertificateAuthority,
    answer: Mutex<OcspAnswer>,
    requests: AtomicUsize,
}

impl OcspResponder {
    /// Starts a responder for certificates of `authority`. It answers [`OcspAnswer::Good`] at first.
    ///
    /// # Panics
    /// Panics if the responder cannot listen.
    pub fn start(authority: CertificateAuthority) -> Self {
        let answer = Mutex::new(OcspAnswer::Good(DAY));
        let state = Arc::new(State { authority, answer, requests: AtomicUsize::new(0) });
        let address: ListenAddr = "127.0.0.1:0".parse().expect("the address should be valid");
        let shared = state.clone();
        let handler = move |request: OwnedRequest| {
            let state = shared.clone();
            async move { respond(&state, request).await }
        };
        let timeouts = Timeouts { drain: Duration::ZERO, ..Timeouts::default() };
        let server = Server::new(handler).workers(1).config(Config { timeouts, ..Config::default() });
        let running =
            server.listen_on(Listener::new(address)).start().expect("a free port should be available");
        let address = running.addresses()[0].clone();
        Self { state, address, running: Some(running) }
    }

    /// Returns the URL of the responder, for certificates.
    pub fn url(&self) -> String {
        format!("http://{}/ocsp", self.address)
    }

    /// Returns the authority that issues the certificates.
    pub fn authority(&self) -> &CertificateAuthority {
        &self.state.authority
    }

    /// Sets the answer to all later requests.
    pub fn set_answer(&self, answer: OcspAnswer) {
        *lock(&self.state.answer) = answer;
    }

    /// Returns the encoded OCSP response for the certificate in `files`, so a test can store it in a file.
    ///
    /// # Panics
    /// Panics if `files` contain no certificate.
    pub fn response_for(&self, files: &CertificateFiles) -> Vec<u8> {
        let contents = files.contents().expect("the files should be readable");
        let certificate =
            Certificate::from_der(&contents.chain[0]).expect("the file should contain a certificate");
        let issuer = self.state.authority.certificate().tbs_certificate.subject_public_key_info;
        let name = certificate.tbs_certificate.issuer.to_der().expect("encoding should succeed");
        let digest =
            |bytes: &[u8]| OctetString::new(Sha1::digest(bytes).to_vec()).expect("the value should fit");
        let cert_id = CertId {
            hash_algorithm: AlgorithmIdentifierOwned { oid: SHA1, parameters: None },
            issuer_name_hash: digest(&name),
            issuer_key_hash: digest(issuer.subject_public_key.raw_bytes()),
            serial_number: certificate.tbs_certificate.serial_number,
        };
        self.state.response(*lock(&self.state.answer), cert_id)
    }

    /// Returns the number of received requests.
    pub fn requests(&self) -> usize {
        self.state.requests.load(Ordering::Relaxed)
    }
}

impl Drop for OcspResponder {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.drain();
            running.join();
        }
    }
}

async fn respond(state: &State, mut request: OwnedRequest) -> Response {
    state.requests.fetch_add(1, Ordering::Relaxed);
    let answer = *lock(&state.answer);
    let is_ocsp_request = request.field("Content-Type").is_some_and(|kind| kind.as_bytes() == REQUEST_TYPE);
    let content = request.content().collect(REQUEST_BYTES_MAX).await.unwrap_or_default();
    let ocsp_request = OcspRequest::from_der(&content).ok().filter(|_| is_ocsp_request);
    let Some(ocsp_request) = ocsp_request else { return Response::new(StatusCode::BAD_REQUEST) };
    let bytes = match answer {
        OcspAnswer::NoResponse => std::future::pending().await,
        OcspAnswer::ServerError => return Response::new(StatusCode::INTERNAL_SERVER_ERROR),
        OcspAnswer::Oversized => vec![0x30; OVERSIZED_BYTES],
        OcspAnswer::Malformed => b"no answer".to_vec(),
        OcspAnswer::TryLater => encoded(&OcspResponse::try_later()),
        answer => state.response(answer, ocsp_request.tbs_request.request_list[0].req_cert.clone()),
    };
    Response::new(StatusCode::OK).with_field("Content-Type", "application/ocsp-response").with_content(bytes)
}

impl State {
    /// Returns the encoded OCSP response with `answer` for the certificate `cert_id`.
    fn response(&self, answer: OcspAnswer, mut cert_id: CertId) -> Vec<u8> {
        let now = Clock::system().time_of_day();
        let (from, until) = match answer {
            OcspAnswer::Good(left) | OcspAnswer::GoodFromDelegatedResponder(left) => (now - HOUR, now + left),
            OcspAnswer::Expired => (now - DAY, now - HOUR),
            OcspAnswer::NotYetValid => (now + DAY, now + 2 * DAY),
            _ => (now - HOUR, now + DAY),
        };
        if answer == OcspAnswer::GoodWithOtherDigest {
            cert_id.hash_algorithm.oid = SHA256;
            let digest = || OctetString::new(vec![7; 32]).expect("the value should fit");
            (cert_id.issuer_name_hash, cert_id.issuer_key_hash) = (digest(), digest());
        }
        if answer == OcspAnswer::GoodForOtherCertificate {
            cert_id.issuer_key_hash = OctetString::new(vec![7; 20]).expect("the value should fit");
        }
        let status = match answer {
            OcspAnswer::Revoked => {
                CertStatus::revoked(RevokedInfo { revocation_time: time(from), revocation_reason: None })
            }
            OcspAnswer::Unknown => CertStatus::unknown(),
            _ => CertStatus::good(),
        };
        let single = SingleResponse {
            cert_id,
            cert_status: status,
            this_update: time(from),
            next_update: Some(time(until)),
            single_extensions: None,
        };
        self.signed(answer, single, time(now))
    }

    fn signed(
        &self,
        answer: OcspAnswer,
        single: SingleResponse,
        produced_at: OcspGeneralizedTime,
    ) -> Vec<u8> {
        let other = CertificateAuthority::new();
        let signer = match answer {
            OcspAnswer::GoodFromDelegatedResponder(_) => Some(self.authority.responder()),
            OcspAnswer::GoodFromUnauthorizedKey => Some(other.responder()),
            _ => None,
        };
        let key = match &signer {
            Some((certificate, _)) => certificate.tbs_certificate.subject_public_key_info.clone(),
            None => self.authority.certificate().tbs_certificate.subject_public_key_info,
        };
        let key_hash = Sha1::digest(key.subject_public_key.raw_bytes()).to_vec();
        let data = ResponseData {
            version: Version::V1,
            responder_id: ResponderId::ByKey(OctetString::new(key_hash).expect("the value should fit")),
            produced_at,
            responses: vec![single],
            response_extensions: None,
        };
        let message = data.to_der().expect("encoding should succeed");
        let signature = match &signer {
            Some((_, sign)) => sign(&message),
            None => self.authority.sign(&message),
        };
        let basic = BasicOcspResponse {
            tbs_response_data: data,
            signature_algorithm: AlgorithmIdentifierOwned { oid: ECDSA_WITH_SHA256, parameters: None },
            signature: BitString::from_bytes(&signature).expect("the value should fit"),
            certs: signer.map(|(certificate, _)| vec![certificate]),
        };
        encoded(&OcspResponse::successful(basic).expect("encoding should succeed"))
    }
}

fn encoded(response: &OcspResponse) -> Vec<u8> {
    response.to_der().expect("encoding should succeed")
}

fn time(time: SystemTime) -> OcspGeneralizedTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let whole = DateTime::from_unix_duration(Duration::from_secs(since.as_secs()))
        .expect("the time should be a valid date");
    OcspGeneralizedTime(GeneralizedTime::from_date_time(whole))
}

const SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
const SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");
const ECDSA_WITH_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const REQUEST_TYPE: &[u8] = b"application/ocsp-request";
const REQUEST_BYTES_MAX: usize = 4 << 10;
const OVERSIZED_BYTES: usize = 1 << 20;
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
