//! Tests of ejection and recovery with a simulated clock.

use super::*;
use crate::upstream::scene::Scene;
use crate::upstream::{Balance, UpstreamConfig};

fn config(servers: usize) -> UpstreamConfig {
    let ejection = EjectionConfig { failures: 3, ..EjectionConfig::default() };
    UpstreamConfig { ejection, ..Scene::config(Balance::RoundRobin, &vec![1; servers]) }
}

/// Makes requests to the server at `place` fail until it is ejected.
fn bring_down(scene: &Scene, place: usize) {
    (0..3).for_each(|_| scene.slot_of(place).failed_for_test());
}

fn is_out(scene: &Scene, place: usize) -> bool {
    !scene.server(place).is_available(scene.now())
}

#[test]
fn a_server_is_ejected_after_so_many_failures_in_a_row() {
    let scene = Scene::with(config(2));
    for _ in 0..5 {
        scene.slot_of(0).failed_for_test();
        scene.slot_of(0).failed_for_test();
        scene.slot_of(0).succeeded_for_test();
    }
    assert!(!is_out(&scene, 0));
    bring_down(&scene, 0);
    assert!(is_out(&scene, 0));
    assert_eq!(scene.counts_of_short(10), [0, 10]);
}

#[test]
fn one_request_tries_a_server_whose_time_is_over() {
    let scene = Scene::with(config(2));
    bring_down(&scene, 0);
    scene.time.advance(Duration::from_secs(10));
    let leases: Vec<_> = (0..10).map(|_| scene.slot()).collect();
    let trials: Vec<_> = leases.iter().filter(|lease| scene.place_of(lease) == 0).collect();
    assert_eq!(trials.len(), 1);
    assert!(is_out(&scene, 0));
    trials[0].succeeded_for_test();
    assert_eq!(scene.counts_of_short(10), [5, 5]);
}

#[test]
fn each_trial_that_fails_makes_it_twice_as_long_up_to_a_maximum() {
    let scene = Scene::with(config(2));
    bring_down(&scene, 0);
    for seconds in [10, 20, 40, 60, 60] {
        scene.time.advance(Duration::from_millis(seconds * 1_000 - 1));
        assert!(is_out(&scene, 0), "{seconds}");
        scene.time.advance(Duration::from_millis(1));
        assert!(!is_out(&scene, 0), "{seconds}");
        scene.slot_of(0).failed_for_test();
    }
}

#[test]
fn a_trial_that_nobody_hears_of_again_is_followed_by_another() {
    let scene = Scene::with(config(2));
    bring_down(&scene, 0);
    scene.time.advance(Duration::from_secs(10));
    drop(scene.slot_of(0));
    assert!(is_out(&scene, 0));
    scene.time.advance(Duration::from_secs(10));
    scene.slot_of(0).succeeded_for_test();
    assert!(!is_out(&scene, 0));
}

#[test]
fn a_server_that_fails_again_soon_is_out_for_longer_and_one_that_has_been_back_for_long_is_not() {
    let scene = Scene::with(config(2));
    let times = [(0, 10), (30, 20), (61, 10)];
    for (seconds_back, seconds_out) in times {
        scene.time.advance(Duration::from_secs(seconds_back));
        bring_down(&scene, 0);
        scene.time.advance(Duration::from_millis(seconds_out * 1_000 - 1));
        assert!(is_out(&scene, 0), "{seconds_back}");
        scene.time.advance(Duration::from_millis(1));
        scene.slot_of(0).succeeded_for_test();
        assert!(!is_out(&scene, 0), "{seconds_back}");
    }
}

#[test]
fn what_began_before_an_ejection_changes_nothing_about_it() {
    let scene = Scene::with(config(2));
    let [early, other] = [0, 0].map(|place| scene.slot_of(place));
    scene.time.advance(Duration::from_secs(1));
    bring_down(&scene, 0);
    early.succeeded_for_test();
    other.failed_for_test();
    assert!(is_out(&scene, 0));
    scene.time.advance(Duration::from_secs(10));
    assert!(!is_out(&scene, 0));
}

#[test]
fn there_is_a_ceiling_and_the_last_one_stays() {
    let allowed = |percent_max, total| {
        let config = EjectionConfig { percent_max, ..EjectionConfig::default() };
        (0..total).take_while(|out| config.allows_one_more(*out, total)).count()
    };
    assert_eq!([1, 2, 3, 4, 10].map(|total| allowed(70, total)), [0, 1, 2, 2, 7]);
    assert_eq!([1, 2, 3, 4, 10].map(|total| allowed(100, total)), [0, 1, 2, 3, 9]);
    assert_eq!([1, 2, 3, 4, 10].map(|total| allowed(0, total)), [0, 1, 1, 1, 1]);

    let scene = Scene::with(config(3));
    for place in [0, 1, 2] {
        bring_down(&scene, place);
    }
    assert_eq!([0, 1, 2].map(|place| is_out(&scene, place)), [true, true, false]);
}

#[test]
fn when_all_are_out_all_are_asked_and_the_first_success_brings_one_back() {
    let scene = Scene::with(config(2));
    bring_down(&scene, 0);
    scene.server(1).health().asks_to_wait(Duration::from_secs(5), scene.now());
    assert_eq!(scene.counts_of_short(10), [5, 5]);
    // Failures of requests that had no other server do not prolong the ejection.
    (0..20).for_each(|_| scene.slot_of(0).failed_for_test());
    scene.slot_of(0).succeeded_for_test();
    assert_eq!(scene.counts_of_short(10), [10, 0]);
}

#[test]
fn without_a_number_of_failures_nobody_is_ejected() {
    let ejection = EjectionConfig { failures: 0, ..EjectionConfig::default() };
    let scene = Scene::with(UpstreamConfig { ejection, ..config(2) });
    (0..100).for_each(|_| scene.slot_of(0).failed_for_test());
    assert!(!is_out(&scene, 0));
}
