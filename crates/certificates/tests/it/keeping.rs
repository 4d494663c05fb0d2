//! Tests of the reuse of stored accounts and certificates.

use std::fs;

use thruway_certificates::acme::{CertificateStatus, ChallengeKind};
use thruway_testkit::acme::Misbehavior;

use crate::scene::{Scene, TIMEOUT, is_issued};

#[test]
fn restarted_client_reuses_stored_certificate_and_account() {
    let scene = Scene::new(ChallengeKind::Http01);
    let acme = scene.start();
    assert!(acme.wait_until(TIMEOUT, is_issued), "{:?}", acme.statuses());
    drop(acme);
    let again = scene.start();
    assert!(again.wait_until(TIMEOUT, is_issued), "{:?}", again.statuses());
    assert_eq!(scene.server.issued(), 1);
    drop(again);
    fs::remove_file(scene.files().chain).unwrap();
    let again = scene.start();
    assert!(again.wait_until(TIMEOUT, is_issued), "{:?}", again.statuses());
    assert_eq!((scene.server.issued(), scene.server.accounts()), (2, 1));
}

#[test]
fn second_client_on_same_store_orders_nothing() {
    let scene = Scene::new(ChallengeKind::TlsAlpn01);
    let first = scene.start();
    assert!(first.wait_until(TIMEOUT, is_issued), "{:?}", first.statuses());
    fs::remove_file(scene.files().chain).unwrap();
    let second = scene.start();
    let is_refused = |status: &CertificateStatus| {
        status.last_error.as_ref().is_some_and(|error| error.starts_with("another process"))
    };
    assert!(second.wait_until(TIMEOUT, |all| all.iter().any(is_refused)), "{:?}", second.statuses());
    assert_eq!(scene.server.issued(), 1);
}

#[test]
fn client_recovers_if_acme_server_forgets_the_account() {
    let scene = Scene::new(ChallengeKind::Http01);
    let acme = scene.start();
    assert!(acme.wait_until(TIMEOUT, is_issued));
    drop(acme);
    fs::remove_file(scene.files().chain).unwrap();
    scene.server.set_misbehavior(Misbehavior::UnknownAccount);
    let acme = scene.start();
    assert!(acme.wait_until(TIMEOUT, |all| all.iter().any(|status| status.failures >= 2)));
    scene.server.set_misbehavior(Misbehavior::None);
    assert!(acme.wait_until(TIMEOUT, is_issued), "{:?}", acme.statuses());
}

#[test]
fn unreadable_account_file_is_reported_and_kept() {
    let scene = Scene::new(ChallengeKind::Http01);
    fs::create_dir_all(scene.account().parent().unwrap()).unwrap();
    fs::write(scene.account(), "is not a valid account").unwrap();
    let acme = scene.start();
    let is_reported =
        |error: &Option<String>| error.as_ref().is_some_and(|error| error.contains("is not a valid account"));
    assert!(acme.wait_until(TIMEOUT, |all| all.iter().any(|status| is_reported(&status.last_error))));
    assert_eq!(fs::read_to_string(scene.account()).unwrap(), "is not a valid account");
    assert_eq!(scene.server.requests(), 0);
}
