//! Tests of ejection and recovery with a simulated clock.

use super::*;
use crate::upstream::scene::Scene;
use crate::upstream::{Balance, UpstreamConfig};

fn config(servers: usize) -> UpstreamConfig {
    let ejection = EjectionConfig { failures: 3, ..EjectionConfig::default() };
    UpstreamConfig { ejection, ..Scene::config(Balance::RoundRobin, &vec![1; servers]) }
}

/// Makes requests to the server at `place` fail until it is ejected.
fn eject(scene: &Scene, place: usize) {
    (0..3).for_each(|_| scene.slot_of(place).failed_for_test());
}

fn is_unavailable(scene: &Scene, place: usize) -> bool {
    !scene.server(place).is_available(scene.now())
}

#[test]
fn server_is_ejected_after_consecutive_failures() {
    let scene = Scene::with(config(2));
    for _ in 0..5 {
        scene.slot_of(0).failed_for_test();
        scene.slot_of(0).failed_for_test();
        scene.slot_of(0).succeeded_for_test();
    }
    assert!(!is_unavailable(&scene, 0));
    eject(&scene, 0);
    assert!(is_unavailable(&scene, 0));
    assert_eq!(scene.counts_of_short(10), [0, 10]);
}

#[test]
fn one_trial_request_tests_a_server_after_ejection_time() {
    let scene = Scene::with(config(2));
    eject(&scene, 0);
    scene.time.advance(Duration::from_secs(10));
    let slots: Vec<_> = (0..10).map(|_| scene.slot()).collect();
    let trials: Vec<_> = slots.iter().filter(|slot| scene.place_of(slot) == 0).collect();
    assert_eq!(trials.len(), 1);
    assert!(is_unavailable(&scene, 0));
    trials[0].succeeded_for_test();
    assert_eq!(scene.counts_of_short(10), [5, 5]);
}

#[test]
fn each_failed_trial_doubles_ejection_time_up_to_a_maximum() {
    let scene = Scene::with(config(2));
    eject(&scene, 0);
    for seconds in [10, 20, 40, 60, 60] {
        scene.time.advance(Duration::from_millis(seconds * 1_000 - 1));
        assert!(is_unavailable(&scene, 0), "{seconds}");
        scene.time.advance(Duration::from_millis(1));
        assert!(!is_unavailable(&scene, 0), "{seconds}");
        scene.slot_of(0).failed_for_test();
    }
}

#[test]
fn trial_without_result_is_followed_by_another() {
    let scene = Scene::with(config(2));
    eject(&scene, 0);
    scene.time.advance(Duration::from_secs(10));
    drop(scene.slot_of(0));
    assert!(is_unavailable(&scene, 0));
    scene.time.advance(Duration::from_secs(10));
    scene.slot_of(0).succeeded_for_test();
    assert!(!is_unavailable(&scene, 0));
}

#[test]
fn ejection_time_doubles_only_if_server_fails_again_soon() {
    let scene = Scene::with(config(2));
    let times = [(0, 10), (30, 20), (61, 10)];
    for (seconds_up, seconds_ejected) in times {
        scene.time.advance(Duration::from_secs(seconds_up));
        eject(&scene, 0);
        scene.time.advance(Duration::from_millis(seconds_ejected * 1_000 - 1));
        assert!(is_unavailable(&scene, 0), "{seconds_up}");
        scene.time.advance(Duration::from_millis(1));
        scene.slot_of(0).succeeded_for_test();
        assert!(!is_unavailable(&scene, 0), "{seconds_up}");
    }
}

#[test]
fn requests_started_before_an_ejection_do_not_change_it() {
    let scene = Scene::with(config(2));
    let [early, other] = [0, 0].map(|place| scene.slot_of(place));
    scene.time.advance(Duration::from_secs(1));
    eject(&scene, 0);
    early.succeeded_for_test();
    other.failed_for_test();
    assert!(is_unavailable(&scene, 0));
    scene.time.advance(Duration::from_secs(10));
    assert!(!is_unavailable(&scene, 0));
}

#[test]
fn ejections_are_limited_and_keep_the_last_server() {
    let allowed = |percent_max, total| {
        let config = EjectionConfig { percent_max, ..EjectionConfig::default() };
        (0..total).take_while(|ejected| config.allows_one_more(*ejected, total)).count()
    };
    assert_eq!([1, 2, 3, 4, 10].map(|total| allowed(70, total)), [0, 1, 2, 2, 7]);
    assert_eq!([1, 2, 3, 4, 10].map(|total| allowed(100, total)), [0, 1, 2, 3, 9]);
    assert_eq!([1, 2, 3, 4, 10].map(|total| allowed(0, total)), [0, 1, 1, 1, 1]);

    let scene = Scene::with(config(3));
    for place in [0, 1, 2] {
        eject(&scene, place);
    }
    assert_eq!([0, 1, 2].map(|place| is_unavailable(&scene, place)), [true, true, false]);
}

#[test]
fn all_ejected_servers_get_requests_until_one_succeeds() {
    let scene = Scene::with(config(2));
    eject(&scene, 0);
    scene.server(1).health().set_retry_after(Duration::from_secs(5), scene.now());
    assert_eq!(scene.counts_of_short(10), [5, 5]);
    // If requests go to ejected servers because no other server is left, their failures do not prolong the
    // ejection.
    (0..20).for_each(|_| scene.slot_of(0).failed_for_test());
    scene.slot_of(0).succeeded_for_test();
    assert_eq!(scene.counts_of_short(10), [10, 0]);
}

#[test]
fn zero_failures_setting_disables_ejection() {
    let ejection = EjectionConfig { failures: 0, ..EjectionConfig::default() };
    let scene = Scene::with(UpstreamConfig { ejection, ..config(2) });
    (0..100).for_each(|_| scene.slot_of(0).failed_for_test());
    assert!(!is_unavailable(&scene, 0));
}
