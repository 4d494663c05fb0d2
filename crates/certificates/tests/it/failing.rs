//! After any failure of the ACME server, the client keeps the old certificate and limits its requests.

use std::fs;
use std::time::Duration;

use thruway_certificates::acme::{Acme, ChallengeKind};
use thruway_net::Clock;
use thruway_testkit::acme::{AcmeServer, Misbehavior};

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
        (Misbehavior::RejectsAllNonces, "urn:ietf:params:acme:error:badNonce"),
        (Misbehavior::OrdersStayPending("0"), "the ACME server did not complete the order in time"),
        (
            Misbehavior::OrdersStayPending("18446744073709551615"),
            "the ACME server did not complete the order in time",
        ),
        (
            Misbehavior::OrdersStayPending("Fri, 31 Dec 9999 23:59:59 GMT"),
            "the ACME server did not complete the order in time",
        ),
        (Misbehavior::ValidationFails, "could not validate `a.example`: nobody\\u{7} is there"),
        (Misbehavior::OversizedResponses, "the response body is larger than allowed"),
        (Misbehavior::OrdersHang, "the ACME server failed:"),
        (Misbehavior::IssuesExpired, "the issued certificate has expired or expires too soon"),
        (Misbehavior::IssuesForOtherKey, "belongs to another certificate"),
        (Misbehavior::IssuesForOtherName, "the issued certificate lacks some ordered names"),
        (Misbehavior::IssuesMalformed, "cannot use the issued certificate"),
        (Misbehavior::TruncatedJson, "JSON"),
        (Misbehavior::PlainHttpUrls, "does not begin with `https://`"),
        (Misbehavior::AuthorizesOtherName, "names that were not ordered"),
    ];
    for (misbehavior, expected) in rows {
        let scene = Scene::new(ChallengeKind::Http01);
        let old = scene.put_old_certificate();
        scene.server.set_misbehavior(misbehavior.clone());
        let acme = scene.start();
        let error = failed(&acme, 2);
        assert!(error.contains(expected), "{misbehavior:?}: {error}");
        assert_eq!(fs::read_to_string(scene.files().chain).unwrap(), old, "{misbehavior:?}");
        assert!(scene.server.requests() < 300, "{misbehavior:?}: {}", scene.server.requests());
        scene.server.set_misbehavior(Misbehavior::None);
        assert!(acme.wait_until(TIMEOUT, is_issued), "{misbehavior:?}: {:?}", acme.statuses());
    }
}

#[test]
fn client_waits_as_long_as_acme_server_requests_up_to_one_day() {
    for (retry_after, wait_min) in [("3600", 3590), ("99999999999999999999", 86_000)] {
        let scene = Scene::new(ChallengeKind::TlsAlpn01);
        scene.put_old_certificate();
        scene.server.set_misbehavior(Misbehavior::RateLimited(retry_after));
        let acme = scene.start();
        let error = failed(&acme, 1);
        assert!(error.contains("too many\\nof them (urn:ietf:params:acme:error:rateLimited)"), "{error}");
        let wait = acme.statuses()[0].next_at.duration_since(Clock::system().time_of_day()).unwrap();
        assert!(wait > Duration::from_secs(wait_min) && wait <= Duration::from_hours(24), "{wait:?}");
    }
}

#[test]
fn client_sends_no_request_to_untrusted_acme_server() {
    let scene = Scene::with_server(AcmeServer::start_with_untrusted_certificate(), ChallengeKind::Http01);
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
        other.server.set_validation_ports(0, 0);
        scene.server.set_validation_ports(other.port(0), other.port(1));
        let acme = scene.start();
        let error = failed(&acme, 1);
        assert!(error.contains("could not validate `a.example`"), "{error}");
        assert!(!scene.files().chain.exists());
    }
}

#[test]
fn certificate_issued_near_expiry_is_stored_and_counted_as_failure() {
    let scene = Scene::new(ChallengeKind::Http01);
    scene.server.set_validity(Duration::from_hours(30), Duration::from_hours(1));
    let acme = scene.start();
    let error = failed(&acme, 2);
    assert!(error.contains("the issued certificate has expired or expires too soon"), "{error}");
    assert!(scene.files().contents().is_ok());
}
