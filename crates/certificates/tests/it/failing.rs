//! After any failure of the ACME server, the client keeps the old certificate and limits its requests.

use std::fs;
use std::time::Duration;

use thruway_certificates::acme::{Acme, ChallengeKind};
use thruway_net::Clock;
use thruway_testkit::acme::{AcmeServer, Misbehaviour};

use crate::scene::{Scene, TIMEOUT, is_issued};

/// Waits for this number of failures and returns the last error.
fn failed(acme: &Acme, failures: u32) -> String {
    let has_failed = acme.wait_until(TIMEOUT, |all| all.iter().any(|status| status.failures >= failures));
    assert!(has_failed, "{:?}", acme.statuses());
    acme.statuses()[0].last_error.clone().unwrap()
}

#[test]
fn failed_order_keeps_old_certificate_and_later_retry_succeeds() {
    let rows = [
        (Misbehaviour::BadNonce, "urn:ietf:params:acme:error:badNonce"),
        (Misbehaviour::Dawdles("0"), "the ACME server did not complete the order in time"),
        (Misbehaviour::Dawdles("18446744073709551615"), "the ACME server did not complete the order in time"),
        (
            Misbehaviour::Dawdles("Fri, 31 Dec 9999 23:59:59 GMT"),
            "the ACME server did not complete the order in time",
        ),
        (Misbehaviour::FindsNobody, "could not validate `a.example`: nobody\\u{7} is there"),
        (Misbehaviour::Giant, "the response body is larger than allowed"),
        (Misbehaviour::Hangs, "the ACME server failed:"),
        (Misbehaviour::IssuesExpired, "the issued certificate has expired or expires too soon"),
        (Misbehaviour::IssuesForOtherKey, "belongs to another certificate"),
        (Misbehaviour::IssuesForOtherName, "the issued certificate lacks some ordered names"),
        (Misbehaviour::IssuesGarbage, "cannot use the issued certificate"),
        (Misbehaviour::MalformedJson, "JSON"),
        (Misbehaviour::PlainUrls, "does not begin with `https://`"),
        (Misbehaviour::UnknownName, "names that were not ordered"),
    ];
    for (misbehaviour, expected) in rows {
        let scene = Scene::new(ChallengeKind::Http01);
        let old = scene.put_old_certificate();
        scene.server.misbehave(misbehaviour.clone());
        let acme = scene.start();
        let error = failed(&acme, 2);
        assert!(error.contains(expected), "{misbehaviour:?}: {error}");
        assert_eq!(fs::read_to_string(scene.files().chain).unwrap(), old, "{misbehaviour:?}");
        assert!(scene.server.requests() < 300, "{misbehaviour:?}: {}", scene.server.requests());
        scene.server.misbehave(Misbehaviour::None);
        assert!(acme.wait_until(TIMEOUT, is_issued), "{misbehaviour:?}: {:?}", acme.statuses());
    }
}

#[test]
fn client_waits_as_long_as_acme_server_requests_up_to_one_day() {
    for (retry_after, wait_min) in [("3600", 3590), ("99999999999999999999", 86_000)] {
        let scene = Scene::new(ChallengeKind::TlsAlpn01);
        scene.put_old_certificate();
        scene.server.misbehave(Misbehaviour::RateLimited(retry_after));
        let acme = scene.start();
        let error = failed(&acme, 1);
        assert!(error.contains("too many\\nof them (urn:ietf:params:acme:error:rateLimited)"), "{error}");
        let wait = acme.statuses()[0].next_at.duration_since(Clock::system().time_of_day()).unwrap();
        assert!(wait > Duration::from_secs(wait_min) && wait <= Duration::from_hours(24), "{wait:?}");
    }
}

#[test]
fn client_sends_no_request_to_untrusted_acme_server() {
    let scene = Scene::with_server(AcmeServer::with_a_wrong_certificate(), ChallengeKind::Http01);
    let old = scene.put_old_certificate();
    let acme = scene.start();
    let error = failed(&acme, 2);
    assert!(error.contains("the certificate issuer is not trusted"), "{error}");
    assert_eq!((scene.server.requests(), fs::read_to_string(scene.files().chain).unwrap()), (0, old));
}

#[test]
fn name_that_points_to_another_site_gets_no_certificate() {
    for challenge in [ChallengeKind::Http01, ChallengeKind::TlsAlpn01] {
        let scene = Scene::new(challenge);
        let other = Scene::new(challenge);
        // The other site does not know the challenge of this order.
        other.server.validate_at(0, 0);
        scene.server.validate_at(other.port(0), other.port(1));
        let acme = scene.start();
        let error = failed(&acme, 1);
        assert!(error.contains("could not validate `a.example`"), "{error}");
        assert!(!scene.files().chain.exists());
    }
}

#[test]
fn certificate_issued_near_expiry_is_stored_and_counted_as_failure() {
    let scene = Scene::new(ChallengeKind::Http01);
    scene.server.issue_for(Duration::from_hours(30), Duration::from_hours(1));
    let acme = scene.start();
    let error = failed(&acme, 2);
    assert!(error.contains("the issued certificate has expired or expires too soon"), "{error}");
    assert!(scene.files().contents().is_ok());
}
