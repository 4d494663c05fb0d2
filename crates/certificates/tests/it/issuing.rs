//! Tests of the issue of certificates.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use thruway_certificates::acme::{AcmeError, ChallengeKind, ExternalAccount, OrderedNames, Wanted};
use thruway_testkit::acme::Misbehavior;

use crate::scene::{DAY, Scene, TIMEOUT, is_issued, names};

#[test]
fn certificate_is_issued_for_several_names_by_each_challenge_type() {
    for challenge in [ChallengeKind::Http01, ChallengeKind::TlsAlpn01] {
        let scene = Scene::new(challenge);
        assert!(scene.acceptor.served().is_empty());
        let acme = scene.start();
        assert!(acme.wait_until(TIMEOUT, is_issued), "{:?}", acme.statuses());
        assert_eq!(scene.acceptor.refresh(), Ok(true));
        let served = scene.acceptor.served();
        assert_eq!(served[0].contents.names, ["a.example", "b.example"]);
        assert_eq!(served[0].contents.chain.len(), 2);
        assert_eq!((scene.server.issued(), scene.server.accounts()), (1, 1));
        for path in [scene.account(), scene.files().chain] {
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{path:?}");
        }
        let statuses = acme.statuses();
        assert_eq!((&statuses[0].names, statuses[0].failures), (&names(), 0));
    }
}

#[test]
fn single_bad_nonce_does_not_fail_the_order() {
    let scene = Scene::new(ChallengeKind::Http01);
    scene.server.set_misbehavior(Misbehavior::RejectsNextNonce);
    let acme = scene.start();
    assert!(acme.wait_until(TIMEOUT, is_issued), "{:?}", acme.statuses());
    assert_eq!(scene.server.issued(), 1);
}

#[test]
fn client_sends_no_request_before_terms_are_accepted() {
    let mut scene = Scene::new(ChallengeKind::Http01);
    scene.config.terms_of_service_agreed = false;
    let acme = scene.start();
    let refused = AcmeError::TermsNotAgreed.to_string();
    let is_refused = |last: &Option<String>| last.as_deref() == Some(&*refused);
    assert!(acme.wait_until(TIMEOUT, |all| all.iter().any(|status| is_refused(&status.last_error))));
    assert_eq!(scene.server.requests(), 0);
}

#[test]
fn certificate_added_during_an_order_is_issued_too() {
    let scene = Scene::new(ChallengeKind::TlsAlpn01);
    scene.server.set_misbehavior(Misbehavior::OrdersStayPending("1"));
    let acme = scene.start();
    // The account and the order exist, and the client waits for the server.
    assert!(acme.wait_until(TIMEOUT, |all| !all.is_empty()));
    let more = OrderedNames::new(["c.example"]).unwrap();
    let Wanted { config, mut certificates } = scene.wanted();
    certificates.push(more.clone());
    acme.follow(Some(Wanted { config, certificates }));
    scene.server.set_misbehavior(Misbehavior::None);
    let are_issued = |all: &[_]| all.len() == 2 && is_issued(all);
    assert!(acme.wait_until(TIMEOUT, are_issued), "{:?}", acme.statuses());
    assert!(scene.config.files(&more).contents().is_ok());
    assert_eq!((scene.server.accounts(), scene.server.issued()), (1, 2));
    // A certificate that is no longer wanted leaves the status, but its files stay.
    acme.follow(None);
    assert!(acme.wait_until(TIMEOUT, <[_]>::is_empty));
    assert!(scene.config.files(&more).contents().is_ok());
}

#[test]
fn certificate_is_issued_with_external_account_binding() {
    let mut scene = Scene::new(ChallengeKind::Http01);
    scene.config.external_account = Some(ExternalAccount { key_id: "ours".to_owned(), key: vec![7; 32] });
    let acme = scene.start();
    assert!(acme.wait_until(TIMEOUT, is_issued), "{:?}", acme.statuses());
    assert_eq!(scene.server.external_accounts(), ["ours"]);
}

#[test]
fn renewal_order_names_the_certificate_that_it_replaces() {
    let scene = Scene::new(ChallengeKind::Http01);
    let old = scene.put_old_certificate();
    scene.server.set_validity(DAY, 89 * DAY);
    let acme = scene.start();
    assert!(acme.wait_until(TIMEOUT, is_issued), "{:?}", acme.statuses());
    assert_ne!(fs::read_to_string(scene.files().chain).unwrap(), old);
    assert_eq!((scene.server.issued(), scene.server.replacements()), (1, 1));
    let status = &acme.statuses()[0];
    let left = status.not_after.unwrap().duration_since(status.next_at).unwrap();
    assert!(left > 8 * DAY && left < 34 * DAY, "{left:?}");
}
