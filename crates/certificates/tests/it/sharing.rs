//! Replicas share the account, the certificate and the challenges in one store.

use std::fs;

use thruway_certificates::acme::ChallengeKind;
use thruway_testkit::acme::Misbehavior;

use crate::fleet::{Fleet, wait_until};
use crate::scene::{DAY, Scene, TIMEOUT, is_issued};

#[test]
fn three_replicas_order_one_certificate_and_renew_it_once() {
    for challenge in [ChallengeKind::Http01, ChallengeKind::TlsAlpn01] {
        let fleet = Fleet::new(3, challenge);
        let clients = fleet.issue();
        let first = fleet.pem();
        assert_eq!((fleet.server.orders(), fleet.server.issued(), fleet.server.accounts()), (1, 1, 1));
        drop(clients);
        // All replicas find at the same time that the renewal is due.
        let old = Scene::new(challenge).put_old_certificate();
        let fleet = Fleet::new(3, challenge);
        fleet.replicas.iter().for_each(|replica| replica.put_pem(&old));
        fleet.server.set_validity(DAY, 89 * DAY);
        let clients = fleet.issue();
        assert!(![&first, &old].contains(&&fleet.pem()));
        assert_eq!((fleet.server.orders(), fleet.server.issued()), (1, 1));
        assert_eq!((fleet.server.replacements(), fleet.server.accounts()), (1, 1));
        drop(clients);
    }
}

#[test]
fn replica_that_starts_later_gets_the_certificate_without_an_order() {
    let fleet = Fleet::new(2, ChallengeKind::Http01);
    fleet.validate_at(0);
    let first = fleet.replicas[0].start();
    assert!(first.wait_until(TIMEOUT, is_issued), "{:?}", first.statuses());
    let requests = fleet.server.requests();
    let second = fleet.replicas[1].start();
    assert!(second.wait_until(TIMEOUT, is_issued), "{:?}", second.statuses());
    fleet.pem();
    assert_eq!((fleet.server.orders(), fleet.server.issued()), (1, 1));
    // The second replica only asks for the renewal time.
    assert!(fleet.server.requests() <= requests + 4, "{} {requests}", fleet.server.requests());
    assert_eq!(fleet.replicas[1].acceptor.refresh(), Ok(true));
}

#[test]
fn another_replica_completes_the_order_of_a_killed_replica() {
    let fleet = Fleet::new(2, ChallengeKind::TlsAlpn01);
    fleet.server.set_misbehavior(Misbehavior::OrdersStayPending("0"));
    fleet.validate_at(0);
    let first = fleet.replicas[0].start();
    wait_until(|| fleet.server.orders() == 1 && fleet.server.requests() > 9);
    drop(first);
    fleet.server.set_misbehavior(Misbehavior::None);
    let second = fleet.replicas[1].start();
    assert!(second.wait_until(TIMEOUT, is_issued), "{:?}", second.statuses());
    assert_eq!((fleet.server.orders(), fleet.server.issued(), fleet.server.accounts()), (1, 1, 1));
}

#[test]
fn replica_killed_at_any_time_causes_no_second_certificate() {
    for requests in [1, 3, 5, 7, 9, 11] {
        let fleet = Fleet::new(2, ChallengeKind::Http01);
        fleet.validate_at(0);
        let first = fleet.replicas[0].start();
        wait_until(|| fleet.server.requests() >= requests || fleet.server.issued() == 1);
        drop(first);
        fleet.validate_at(1);
        let second = fleet.replicas[1].start();
        assert!(second.wait_until(TIMEOUT, is_issued), "{requests}: {:?}", second.statuses());
        assert_eq!(fleet.server.issued(), 1, "killed after {requests} requests");
        // The replica may be killed before it has stored the account or the order.
        assert!(fleet.server.orders() <= 2 && fleet.server.accounts() <= 2, "{requests}");
    }
}

#[test]
fn certificate_and_account_of_a_single_process_are_moved_to_the_store() {
    let mut scene = Scene::new(ChallengeKind::Http01);
    let alone = scene.start();
    assert!(alone.wait_until(TIMEOUT, is_issued), "{:?}", alone.statuses());
    drop(alone);
    let fleet = Fleet::new(1, ChallengeKind::Http01);
    // The process gets the shared store of the fleet, and then another replica joins.
    let mut joining = fleet.replicas.into_iter().next().unwrap();
    scene.config.shared = joining.config.shared.clone();
    let moved = scene.start();
    joining.set_keys(&fleet.store, &[1]);
    joining.config.directory.clone_from(&scene.config.directory);
    joining.config.connector.clone_from(&scene.config.connector);
    wait_until(|| !joining.config.files(&crate::scene::names()).chain.exists());
    let joined = joining.start();
    assert!(joined.wait_until(TIMEOUT, is_issued), "{:?}", joined.statuses());
    assert_eq!(joining.pem(), fs::read_to_string(scene.files().chain).unwrap());
    assert_eq!((scene.server.orders(), scene.server.accounts()), (1, 1));
    drop(moved);
}

#[test]
fn replicas_share_the_delay_after_a_refused_order() {
    let fleet = Fleet::new(3, ChallengeKind::Http01);
    fleet.server.set_misbehavior(Misbehavior::RateLimited("3600"));
    let clients: Vec<_> = fleet.replicas.iter().map(crate::fleet::Replica::start).collect();
    for acme in &clients {
        let has_failed = acme.wait_until(TIMEOUT, |all| all.iter().any(|status| status.failures == 1));
        assert!(has_failed, "{:?}", acme.statuses());
    }
    assert_eq!((fleet.server.accounts(), fleet.server.orders()), (1, 0));
}

#[test]
fn operator_key_can_be_rotated() {
    let mut fleet = Fleet::new(3, ChallengeKind::Http01);
    fleet.validate_at(0);
    let first = fleet.replicas[0].start();
    assert!(first.wait_until(TIMEOUT, is_issued), "{:?}", first.statuses());
    drop(first);
    // The new key comes first. The old key still opens the values.
    let store = fleet.store.clone();
    fleet.replicas[1].set_keys(&store, &[2, 1]);
    let second = fleet.replicas[1].start();
    assert!(second.wait_until(TIMEOUT, is_issued), "{:?}", second.statuses());
    assert_eq!(fleet.server.issued(), 1);
    // A replica with another key cannot read the certificate, and orders another one.
    fleet.replicas[2].set_keys(&store, &[3]);
    fleet.validate_at(2);
    let third = fleet.replicas[2].start();
    assert!(third.wait_until(TIMEOUT, is_issued), "{:?}", third.statuses());
    assert_eq!(fleet.server.issued(), 2);
    assert_ne!(fleet.replicas[1].pem(), fleet.replicas[2].pem());
}
