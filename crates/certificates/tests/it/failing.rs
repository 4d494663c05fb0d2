//! However the server fails, the present certificate is kept, and the client does not flood the server with
//! requests.

use std::fs;
use std::time::Duration;

use thruway_certificates::acme::{Acme, ChallengeKind};
use thruway_net::Clock;
use thruway_testkit::acme::{AcmeServer, Misbehaviour};

use crate::scene::{PATIENCE, Scene, is_issued};

/// Waits for this number of failures and returns the last error.
fn failed(acme: &Acme, failures: u32) -> String {
    let has_failed = acme.wait_until(PATIENCE, |all| all.iter().any(|status| status.failures >= failures));
    assert!(has_failed, "{:?}", acme.statuses());
    acme.statuses()[0].last_error.clone().unwrap()
}

#[test]
fn whatever_goes_wrong_the_certificate_of_before_stays_and_another_comes_later() {
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
        let said = failed(&acme, 2);
        assert!(said.contains(expected), "{misbehaviour:?}: {said}");
        assert_eq!(fs::read_to_string(scene.files().chain).unwrap(), old, "{misbehaviour:?}");
        assert!(scene.server.requests() < 300, "{misbehaviour:?}: {}", scene.server.requests());
        scene.server.misbehave(Misbehaviour::None);
        assert!(acme.wait_until(PATIENCE, is_issued), "{misbehaviour:?}: {:?}", acme.statuses());
    }
}

#[test]
fn a_server_that_wants_to_be_left_alone_is() {
    for (told, least) in [("3600", 3590), ("99999999999999999999", 86_000)] {
        let scene = Scene::new(ChallengeKind::TlsAlpn01);
        scene.put_old_certificate();
        scene.server.misbehave(Misbehaviour::RateLimited(told));
        let acme = scene.start();
        let said = failed(&acme, 1);
        assert!(said.contains("too many\\nof them (urn:ietf:params:acme:error:rateLimited)"), "{said}");
        let wait = acme.statuses()[0].next_at.duration_since(Clock::system().time_of_day()).unwrap();
        assert!(wait > Duration::from_secs(least) && wait <= Duration::from_hours(24), "{wait:?}");
    }
}

#[test]
fn a_server_that_is_somebody_else_is_told_nothing() {
    let scene = Scene::before(AcmeServer::with_a_wrong_certificate(), ChallengeKind::Http01);
    let old = scene.put_old_certificate();
    let acme = scene.start();
    let said = failed(&acme, 2);
    assert!(said.contains("the certificate issuer is not trusted"), "{said}");
    assert_eq!((scene.server.requests(), fs::read_to_string(scene.files().chain).unwrap()), (0, old));
}

#[test]
fn a_name_that_leads_elsewhere_gets_no_certificate() {
    for challenge in [ChallengeKind::Http01, ChallengeKind::TlsAlpn01] {
        let scene = Scene::new(challenge);
        let other = Scene::new(challenge);
        // The other site does not know the challenge of this order.
        other.server.validate_at(0, 0);
        scene.server.validate_at(other.port(0), other.port(1));
        let acme = scene.start();
        let said = failed(&acme, 1);
        assert!(said.contains("could not validate `a.example`"), "{said}");
        assert!(!scene.files().chain.exists());
    }
}

#[test]
fn certificates_that_are_issued_too_old_are_used_and_not_ordered_without_end() {
    let scene = Scene::new(ChallengeKind::Http01);
    scene.server.issue_for(Duration::from_hours(30), Duration::from_hours(1));
    let acme = scene.start();
    let said = failed(&acme, 2);
    assert!(said.contains("the issued certificate has expired or expires too soon"), "{said}");
    assert!(scene.files().contents().is_ok());
}
