//! An OCSP responder (RFC 6960) on loopback for certificates of a test authority, which misbehaves on demand.

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

use crate::authority::Authority;
use crate::lock::lock;

/// A responder. It ends with this.
pub struct OcspResponder {
    state: Arc<State>,
    address: ListenAddr,
    running: Option<RunningServer>,
}

/// Behaviour of the responder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Says {
    /// That certificates are good, from an hour ago and for so long.
    Good(Duration),
    /// The same, signed by a delegated responder.
    GoodBySomebody(Duration),
    /// The same, with a certificate id that uses another digest than the request.
    GoodByOtherDigest,
    /// The same, signed by an unauthorized key.
    GoodByNobody,
    /// That another certificate is good.
    GoodOfOther,
    /// That it is revoked.
    Revoked,
    /// That it was good until an hour ago.
    Stale,
    /// That it will be good tomorrow.
    Future,
    /// That it does not know it.
    Unknown,
    /// That it has no time.
    TryLater,
    /// Bytes that are no OCSP response.
    Garbage,
    /// A response that exceeds all limits.
    Giant,
    /// No response.
    Hangs,
    /// 500.
    Fails,
}

struct State {
    authority: Authority,
    says: Mutex<Says>,
    requests: AtomicUsize,
}

impl OcspResponder {
    /// One for certificates of `authority`.
    ///
    /// # Panics
    /// It cannot listen.
    pub fn start(authority: Authority) -> Self {
        let says = Mutex::new(Says::Good(DAY));
        let state = Arc::new(State { authority, says, requests: AtomicUsize::new(0) });
        let address: ListenAddr = "127.0.0.1:0".parse().expect("it is an address");
        let answering = state.clone();
        let answer = move |request: OwnedRequest| {
            let state = answering.clone();
            async move { answer(&state, request).await }
        };
        let timeouts = Timeouts { drain: Duration::ZERO, ..Timeouts::default() };
        let server = Server::new(answer).workers(1).config(Config { timeouts, ..Config::default() });
        let running = server.listen_on(Listener::new(address)).start().expect("there is a port");
        let address = running.addresses()[0].clone();
        Self { state, address, running: Some(running) }
    }

    /// Its URL, as certificates name it.
    pub fn url(&self) -> String {
        format!("http://{}/ocsp", self.address)
    }

    /// Returns the authority of the certificates.
    pub fn authority(&self) -> &Authority {
        &self.state.authority
    }

    /// Says this from now on.
    pub fn say(&self, says: Says) {
        *lock(&self.state.says) = says;
    }

    /// Returns an OCSP response for the certificate in `files`, as an operator may store it in a file.
    ///
    /// # Panics
    /// They hold no certificate.
    pub fn answer_about(&self, files: &CertificateFiles) -> Vec<u8> {
        let contents = files.contents().expect("it was issued");
        let certificate = Certificate::from_der(&contents.chain[0]).expect("it is a certificate");
        let issuer = self.state.authority.certificate().tbs_certificate.subject_public_key_info;
        let name = certificate.tbs_certificate.issuer.to_der().expect("it can be encoded");
        let digest = |bytes: &[u8]| OctetString::new(Sha1::digest(bytes).to_vec()).expect("it is short");
        let asked = CertId {
            hash_algorithm: AlgorithmIdentifierOwned { oid: SHA1, parameters: None },
            issuer_name_hash: digest(&name),
            issuer_key_hash: digest(issuer.subject_public_key.raw_bytes()),
            serial_number: certificate.tbs_certificate.serial_number,
        };
        self.state.answer(*lock(&self.state.says), asked)
    }

    /// Returns the number of requests.
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

async fn answer(state: &State, mut request: OwnedRequest) -> Response {
    state.requests.fetch_add(1, Ordering::Relaxed);
    let says = *lock(&state.says);
    let is_question = request.field("Content-Type").is_some_and(|kind| kind.as_bytes() == QUESTION);
    let content = request.content().collect(QUESTION_BYTES_MAX).await.unwrap_or_default();
    let asked = OcspRequest::from_der(&content).ok().filter(|_| is_question);
    let Some(asked) = asked else { return Response::new(StatusCode::BAD_REQUEST) };
    let bytes = match says {
        Says::Hangs => std::future::pending().await,
        Says::Fails => return Response::new(StatusCode::INTERNAL_SERVER_ERROR),
        Says::Giant => vec![0x30; GIANT_BYTES],
        Says::Garbage => b"no answer".to_vec(),
        Says::TryLater => encoded(&OcspResponse::try_later()),
        says => state.answer(says, asked.tbs_request.request_list[0].req_cert.clone()),
    };
    Response::new(StatusCode::OK).with_field("Content-Type", "application/ocsp-response").with_content(bytes)
}

impl State {
    fn answer(&self, says: Says, mut asked: CertId) -> Vec<u8> {
        let now = Clock::system().time_of_day();
        let (from, until) = match says {
            Says::Good(left) | Says::GoodBySomebody(left) => (now - HOUR, now + left),
            Says::Stale => (now - DAY, now - HOUR),
            Says::Future => (now + DAY, now + 2 * DAY),
            _ => (now - HOUR, now + DAY),
        };
        if says == Says::GoodByOtherDigest {
            asked.hash_algorithm.oid = SHA256;
            let digest = || OctetString::new(vec![7; 32]).expect("it is short");
            (asked.issuer_name_hash, asked.issuer_key_hash) = (digest(), digest());
        }
        if says == Says::GoodOfOther {
            asked.issuer_key_hash = OctetString::new(vec![7; 20]).expect("it is short");
        }
        let status = match says {
            Says::Revoked => {
                CertStatus::revoked(RevokedInfo { revocation_time: time(from), revocation_reason: None })
            }
            Says::Unknown => CertStatus::unknown(),
            _ => CertStatus::good(),
        };
        let answer = SingleResponse {
            cert_id: asked,
            cert_status: status,
            this_update: time(from),
            next_update: Some(time(until)),
            single_extensions: None,
        };
        self.signed(says, answer, time(now))
    }

    fn signed(&self, says: Says, answer: SingleResponse, produced_at: OcspGeneralizedTime) -> Vec<u8> {
        let other = Authority::new();
        let signer = match says {
            Says::GoodBySomebody(_) => Some(self.authority.responder()),
            Says::GoodByNobody => Some(other.responder()),
            _ => None,
        };
        let key = match &signer {
            Some((certificate, _)) => certificate.tbs_certificate.subject_public_key_info.clone(),
            None => self.authority.certificate().tbs_certificate.subject_public_key_info,
        };
        let key_hash = Sha1::digest(key.subject_public_key.raw_bytes()).to_vec();
        let said = ResponseData {
            version: Version::V1,
            responder_id: ResponderId::ByKey(OctetString::new(key_hash).expect("it is short")),
            produced_at,
            responses: vec![answer],
            response_extensions: None,
        };
        let message = said.to_der().expect("it can be encoded");
        let signature = match &signer {
            Some((_, sign)) => sign(&message),
            None => self.authority.sign(&message),
        };
        let basic = BasicOcspResponse {
            tbs_response_data: said,
            signature_algorithm: AlgorithmIdentifierOwned { oid: ECDSA_WITH_SHA256, parameters: None },
            signature: BitString::from_bytes(&signature).expect("it is short"),
            certs: signer.map(|(certificate, _)| vec![certificate]),
        };
        encoded(&OcspResponse::successful(basic).expect("it can be encoded"))
    }
}

fn encoded(response: &OcspResponse) -> Vec<u8> {
    response.to_der().expect("it can be encoded")
}

fn time(time: SystemTime) -> OcspGeneralizedTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let whole = DateTime::from_unix_duration(Duration::from_secs(since.as_secs())).expect("it is a date");
    OcspGeneralizedTime(GeneralizedTime::from_date_time(whole))
}

const SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
const SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");
const ECDSA_WITH_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const QUESTION: &[u8] = b"application/ocsp-request";
const QUESTION_BYTES_MAX: usize = 4 << 10;
const GIANT_BYTES: usize = 1 << 20;
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
