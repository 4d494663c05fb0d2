//! Tests of OCSP stapling.

use std::sync::Arc;
use std::time::Duration;

use thruway_certificates::ocsp::{OcspError, Staple, StapleStatus, Stapler};
use thruway_certificates::replicas::SharedSecrets;
use thruway_net::Clock;
use thruway_net::tls::{CertificateFiles, TlsAcceptor, TlsAcceptorConfig};
use thruway_store::{SharedKey, Store};
use thruway_testkit::CertificateAuthority;
use thruway_testkit::ocsp::{OcspAnswer, OcspResponder};

use crate::scene::{DAY, TIMEOUT};

/// Returns a responder, and a certificate that names it.
fn scene() -> (OcspResponder, CertificateFiles, Arc<TlsAcceptor>) {
    let responder = OcspResponder::start(CertificateAuthority::new());
    let files = responder.authority().issue_with_responder("server", &["a.example"], &responder.url());
    let acceptor = acceptor(&files);
    (responder, files, acceptor)
}

fn acceptor(files: &CertificateFiles) -> Arc<TlsAcceptor> {
    Arc::new(TlsAcceptor::load(TlsAcceptorConfig::new(vec![files.clone()])).unwrap())
}

/// Starts a stapler with short delays.
fn stapler(acceptor: &Arc<TlsAcceptor>) -> Stapler {
    let stapler = Stapler::with_pace(Duration::from_millis(500), Duration::from_millis(10));
    stapler.follow(vec![acceptor.clone()]);
    stapler
}

fn is_stapled(statuses: &[StapleStatus]) -> bool {
    statuses.iter().any(|status| status.next_update.is_some() && status.last_error.is_none())
}

/// Waits for this number of failures and returns the last error.
fn failed(stapler: &Stapler, failures: u32) -> OcspError {
    let has_failed = |all: &[StapleStatus]| all.iter().any(|status| status.failures >= failures);
    assert!(stapler.wait_until(TIMEOUT, has_failed), "{:?}", stapler.statuses());
    stapler.statuses()[0].last_error.clone().unwrap()
}

#[test]
fn ocsp_response_is_fetched_and_stapled() {
    for answer in [OcspAnswer::Good(DAY), OcspAnswer::GoodFromDelegatedResponder(DAY)] {
        let (responder, files, acceptor) = scene();
        responder.set_answer(answer);
        let stapler = stapler(&acceptor);
        assert!(stapler.wait_until(TIMEOUT, is_stapled), "{answer:?}: {:?}", stapler.statuses());
        assert!(acceptor.stapled(&files.chain).is_some());
        let status = &stapler.statuses()[0];
        let left = status.next_update.unwrap().duration_since(Clock::system().time_of_day()).unwrap();
        assert!(left + Duration::from_mins(10) > DAY, "{left:?}");
        assert_eq!((&status.path, responder.requests()), (&files.chain, 1));
    }
}

#[test]
fn invalid_ocsp_response_is_not_stapled() {
    let rows = [
        (OcspAnswer::GoodFromUnauthorizedKey, OcspError::SignatureInvalid),
        (OcspAnswer::GoodForOtherCertificate, OcspError::ForOther),
        (OcspAnswer::Revoked, OcspError::Revoked),
        (OcspAnswer::Expired, OcspError::NotCurrent),
        (OcspAnswer::NotYetValid, OcspError::NotCurrent),
        (OcspAnswer::Unknown, OcspError::Unknown),
        (OcspAnswer::TryLater, OcspError::Refused(3)),
        (OcspAnswer::Malformed, OcspError::Malformed),
        (OcspAnswer::ServerError, OcspError::Status(500)),
    ];
    let (responder, files, acceptor) = scene();
    for (answer, expected) in rows {
        responder.set_answer(answer);
        let stapler = stapler(&acceptor);
        assert_eq!(failed(&stapler, 2), expected, "{answer:?}");
        assert_eq!(acceptor.stapled(&files.chain), None, "{answer:?}");
    }
    for answer in [OcspAnswer::Oversized, OcspAnswer::NoResponse] {
        responder.set_answer(answer);
        let stapler = stapler(&acceptor);
        let error = failed(&stapler, 1);
        assert!(matches!(error, OcspError::Unreachable(_)), "{answer:?}: {error}");
        assert_eq!(acceptor.stapled(&files.chain), None, "{answer:?}");
    }
    responder.set_answer(OcspAnswer::Good(DAY));
    assert!(stapler(&acceptor).wait_until(TIMEOUT, is_stapled));
}

#[test]
fn stapled_response_survives_fetch_failures_until_it_expires() {
    let (responder, files, acceptor) = scene();
    // The response expires soon, so that the stapler fetches the next one as soon as possible.
    responder.set_answer(OcspAnswer::Good(Duration::from_secs(3)));
    let stapler = stapler(&acceptor);
    assert!(stapler.wait_until(TIMEOUT, is_stapled), "{:?}", stapler.statuses());
    let before = acceptor.stapled(&files.chain);
    assert!(before.is_some());
    responder.set_answer(OcspAnswer::ServerError);
    stapler.fetch_now();
    assert_eq!(failed(&stapler, 1), OcspError::Status(500));
    assert_eq!(acceptor.stapled(&files.chain), before);
    let has_expired = |all: &[StapleStatus]| all.iter().all(|status| status.next_update.is_none());
    assert!(stapler.wait_until(TIMEOUT, has_expired), "{:?}", stapler.statuses());
    assert_eq!(acceptor.stapled(&files.chain), None);
}

#[test]
fn revoked_certificate_loses_its_stapled_response() {
    let (responder, files, acceptor) = scene();
    let stapler = stapler(&acceptor);
    assert!(stapler.wait_until(TIMEOUT, is_stapled));
    responder.set_answer(OcspAnswer::Revoked);
    stapler.fetch_now();
    assert_eq!(failed(&stapler, 1), OcspError::Revoked);
    assert_eq!(acceptor.stapled(&files.chain), None);
}

#[test]
fn new_certificate_gets_its_own_ocsp_response() {
    let (responder, files, acceptor) = scene();
    let stapler = stapler(&acceptor);
    assert!(stapler.wait_until(TIMEOUT, is_stapled));
    let before = acceptor.stapled(&files.chain);
    responder.authority().issue_with_responder("server", &["a.example"], &responder.url());
    assert_eq!(acceptor.refresh(), Ok(true));
    // The previous response concerns another certificate.
    assert_ne!(acceptor.stapled(&files.chain), before);
    let is_another =
        |_: &[StapleStatus]| acceptor.stapled(&files.chain).is_some_and(|staple| Some(staple) != before);
    assert!(stapler.wait_until(TIMEOUT, is_another), "{:?}", stapler.statuses());
    // Another config with the same files gets the response immediately.
    let reloaded = self::acceptor(&files);
    stapler.follow(vec![reloaded.clone()]);
    let has_staple = |_: &[StapleStatus]| reloaded.stapled(&files.chain).is_some();
    assert!(stapler.wait_until(TIMEOUT, has_staple));
    assert_eq!(responder.requests(), 2);
}

/// Regression test: clients got such a response forever, even after it had expired.
#[test]
fn stapled_response_is_removed_when_stapler_stops_refreshing_it() {
    let (_responder, files, acceptor) = scene();
    let stapler = stapler(&acceptor);
    assert!(stapler.wait_until(TIMEOUT, is_stapled));
    stapler.follow(Vec::new());
    let is_gone = |_: &[StapleStatus]| acceptor.stapled(&files.chain).is_none();
    assert!(stapler.wait_until(TIMEOUT, is_gone));
}

#[test]
fn stapler_ignores_certificate_without_ocsp_url() {
    let (responder, _, named) = scene();
    let unnamed = acceptor(&responder.authority().issue("unnamed", &["b.example"]));
    let stapler = Stapler::with_pace(Duration::from_secs(1), Duration::from_millis(10));
    stapler.follow(vec![unnamed.clone(), named]);
    assert!(stapler.wait_until(TIMEOUT, is_stapled));
    assert_eq!((stapler.statuses().len(), responder.requests()), (1, 1));
}

/// A response from a file is checked like one that is fetched.
#[test]
fn ocsp_response_from_file_must_match_certificate_and_be_current() {
    let (responder, files, _) = scene();
    let chain = files.contents().unwrap().chain;
    let read = |response: &[u8], chain: &[Vec<u8>]| {
        Staple::of_chain(response, chain, Clock::system().time_of_day()).map(drop)
    };
    let good = responder.response_for(&files);
    assert_eq!(read(&good, &chain), Ok(()));
    // A certificate in a file need not name a responder, but its chain must contain the issuer.
    let unnamed = responder.authority().issue("unnamed", &["b.example"]);
    let alone = unnamed.contents().unwrap().chain;
    let about_unnamed = responder.response_for(&unnamed);
    assert_eq!(read(&about_unnamed, &[alone[0].clone(), chain[1].clone()]), Ok(()));
    assert_eq!(read(&about_unnamed, &alone), Err(OcspError::IssuerMissing));
    assert_eq!(read(&about_unnamed, &chain), Err(OcspError::ForOther));
    assert_eq!(read(b"an answer", &chain), Err(OcspError::Malformed));
    responder.set_answer(OcspAnswer::Expired);
    assert_eq!(read(&responder.response_for(&files), &chain), Err(OcspError::NotCurrent));
    let after = Clock::system().time_of_day() + 2 * DAY;
    assert_eq!(Staple::of_chain(&good, &chain, after).err(), Some(OcspError::NotCurrent));
}

/// Another client with another digest may have fetched the response in a file.
#[test]
fn ocsp_response_with_another_digest_matches_same_certificate() {
    let (responder, files, _) = scene();
    let chain = files.contents().unwrap().chain;
    responder.set_answer(OcspAnswer::GoodWithOtherDigest);
    let now = Clock::system().time_of_day();
    assert!(Staple::of_chain(&responder.response_for(&files), &chain, now).is_ok());
    let other = responder.authority().issue("other", &["b.example"]);
    let about_other = responder.response_for(&other);
    assert_eq!(Staple::of_chain(&about_other, &chain, now).err(), Some(OcspError::ForOther));
}

#[test]
fn one_replica_fetches_the_ocsp_response_and_the_others_read_it() {
    let (responder, files, first) = scene();
    let (store, key) = (Store::memory(), SharedKey::random());
    let start = |replica: &str, acceptor: &Arc<TlsAcceptor>| {
        let stapler = Stapler::with_pace(TIMEOUT, Duration::from_millis(10));
        stapler.share(Some(SharedSecrets::new(store.clone(), &key, replica)));
        stapler.follow(vec![acceptor.clone()]);
        stapler
    };
    let second = acceptor(&files);
    let staplers = [start("one", &first), start("two", &second)];
    for stapler in &staplers {
        assert!(stapler.wait_until(TIMEOUT, is_stapled), "{:?}", stapler.statuses());
    }
    assert_eq!(responder.requests(), 1);
    assert_eq!(first.stapled(&files.chain), second.stapled(&files.chain));
    // A replica that starts later sends no request either.
    let third = acceptor(&files);
    let stapler = start("three", &third);
    assert!(stapler.wait_until(TIMEOUT, is_stapled), "{:?}", stapler.statuses());
    assert_eq!(responder.requests(), 1);
}
