//! Tests of load balancing, and of the events that change the shares of servers.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use thruway_client::UpstreamAddr;

use super::balance_config::{HashBy, hash};
use crate::upstream::scene::{Scene, address};
use crate::upstream::{Balance, RequestKey, ServerConfig, Sticky, UpstreamConfig};

fn by_path(load_max_percent: u32) -> Balance {
    Balance::Hash { by: HashBy::Path, load_max_percent }
}

fn all() -> [Balance; 5] {
    [
        Balance::RoundRobin,
        Balance::LeastConnections,
        Balance::RandomOfTwo,
        Balance::PeakEwma,
        Balance::hash(HashBy::Path),
    ]
}

#[test]
fn servers_with_zero_weight_get_no_requests() {
    for balance in all() {
        assert_eq!(Scene::new(balance.clone(), &[0, 1]).places(&[], 2), [Some(1), Some(1)]);
        assert_eq!(Scene::new(balance.clone(), &[0, 0]).places(&[], 1), [None]);
        assert_eq!(Scene::new(balance, &[]).places(&[], 1), [None]);
    }
}

#[test]
fn tried_server_is_reused_only_if_no_other_is_left() {
    for balance in all() {
        assert_eq!(Scene::new(balance.clone(), &[1, 1]).places(&[0], 3), [Some(1); 3]);
        assert_eq!(Scene::new(balance, &[1]).places(&[0], 1), [Some(0)]);
    }
}

#[test]
fn backup_gets_requests_only_if_all_others_are_down_or_tried() {
    for balance in all() {
        let mut config = Scene::config(balance, &[1, 1, 1]);
        config.servers[2].is_backup = true;
        let scene = Scene::with(config);
        assert!(!scene.places(&[], 50).contains(&Some(2)));
        assert_eq!(scene.places(&[0, 1], 1), [Some(2)]);
        let now = scene.now();
        for place in [0, 1] {
            scene.server(place).health().set_retry_after(Duration::from_secs(1), now);
        }
        assert_eq!(scene.places(&[], 3), [Some(2); 3]);
        scene.server(2).health().set_retry_after(Duration::from_secs(1), now);
        let selected = scene.places(&[], 3);
        assert!(selected.iter().all(|place| matches!(place, Some(0 | 1))));
        scene.time.advance(Duration::from_secs(1));
        assert!(!scene.places(&[], 50).contains(&Some(2)));
    }
}

#[test]
fn requests_of_an_unavailable_server_go_to_all_others() {
    // Regression test: the server after the unavailable server got all requests of the unavailable server.
    let scene = Scene::new(Balance::RoundRobin, &[1, 1, 1]);
    scene.server(0).health().set_retry_after(Duration::from_secs(1), scene.now());
    assert_eq!(scene.counts_of_short(100), [0, 50, 50]);
}

#[test]
fn least_connections_respects_weights() {
    assert_eq!(Scene::new(Balance::LeastConnections, &[1, 3]).counts(40), [10, 30]);
}

#[test]
fn every_balance_method_respects_weights() {
    for balance in all() {
        let counts = Scene::new(balance.clone(), &[1, 3]).counts(400);
        assert!((85..=115).contains(&counts[0]), "{balance:?}: {counts:?}");
    }
}

#[test]
fn random_of_two_prefers_server_with_fewer_requests() {
    let scene = Scene::new(Balance::RandomOfTwo, &[1; 4]);
    let busy: Vec<_> = (0..3).map(|_| scene.server(0)).inspect(|server| server.begin_for_test()).collect();
    assert_eq!(busy.len(), 3);
    // The other server of each random pair has fewer requests.
    assert_eq!(scene.counts_of_short(100)[0], 0);
    let even = Scene::new(Balance::RandomOfTwo, &[1; 4]).counts(400);
    assert!(even.iter().all(|count| (90..=110).contains(count)), "{even:?}");
}

#[test]
fn peak_ewma_prefers_faster_server_until_it_is_busy() {
    let scene = Scene::new(Balance::PeakEwma, &[1, 1]);
    let now = scene.now();
    scene.server(0).health().latency.record(Duration::from_millis(40), now);
    scene.server(1).health().latency.record(Duration::from_millis(10), now);
    assert_eq!(scene.counts_of_short(20), [0, 20]);
    // The second server is four times as fast. It gets about four times as many concurrent requests.
    assert_eq!(scene.counts(50), [10, 40]);
}

#[test]
fn server_with_unknown_latency_gets_one_request_until_it_responds() {
    let scene = Scene::new(Balance::PeakEwma, &[1, 1]);
    scene.server(0).health().latency.record(Duration::from_millis(10), scene.now());
    assert_eq!(scene.counts(20), [19, 1]);
}

#[test]
fn server_in_slow_start_gets_part_of_its_share() {
    for balance in all().into_iter().filter(|balance| balance.hash_by().is_none()) {
        let config =
            UpstreamConfig { slow_start: Duration::from_secs(10), ..Scene::config(balance.clone(), &[1, 1]) };
        let scene = Scene::with(config);
        scene.server(0).health().end_ejection(scene.now());
        let counts = scene.counts_of_short(1_000);
        assert!((20..200).contains(&counts[0]), "{balance:?}: {counts:?}");
        scene.time.advance(Duration::from_secs(10));
        let counts = scene.counts_of_short(1_000);
        // Latencies are still unknown, so the first server of each random pair is used.
        assert!((400..=600).contains(&counts[0]), "{balance:?}: {counts:?}");
    }
}

/// Regression test: a server with slow start got all of its keys back at once.
#[test]
fn server_in_slow_start_gets_its_hash_keys_back_gradually() {
    let slow_start = Duration::from_secs(10);
    let scene = Scene::with(UpstreamConfig { slow_start, ..Scene::config(by_path(100_000), &[1, 1]) });
    let before = keys(&scene);
    scene.server(0).health().end_ejection(scene.now());
    let away = || {
        let now = keys(&scene);
        assert!(now.iter().all(|(key, server)| before[key] == *server || *server == address(2)));
        let away: HashSet<_> = now.into_iter().filter(|(key, server)| before[key] != *server).collect();
        away
    };
    let each_second: Vec<_> = (0..=10)
        .map(|_| {
            let away = away();
            scene.time.advance(Duration::from_secs(1));
            away
        })
        .collect();
    // A key that has returned does not leave again.
    assert!(each_second.windows(2).all(|pair| pair[1].is_subset(&pair[0])));
    let counts: Vec<_> = each_second.iter().map(HashSet::len).collect();
    assert!(counts[0] > 400 && (100..400).contains(&counts[5]) && counts[10] == 0, "{counts:?}");
}

#[test]
fn servers_share_evenly_if_all_are_in_slow_start() {
    // Regression test: the first server of each round got all requests that the other servers did not accept
    // during slow start.
    for balance in all().into_iter().filter(|balance| balance.hash_by().is_none()) {
        let slow_start = Duration::from_secs(10);
        let scene = Scene::with(UpstreamConfig { slow_start, ..Scene::config(balance.clone(), &[1, 1, 1]) });
        for place in [0, 1, 2] {
            scene.server(place).health().end_ejection(scene.now());
        }
        let counts = scene.counts_of_short(3_000);
        assert!(counts.iter().all(|count| (800..=1_200).contains(count)), "{balance:?}: {counts:?}");
    }
}

/// Returns the server of each of a thousand keys.
fn keys(scene: &Scene) -> HashMap<u64, UpstreamAddr> {
    let server_of = |key: u64| scene.server(scene.place_of_key(key)).address.clone();
    (0..1_000_u64).map(|n| hash(&n.to_be_bytes())).map(|key| (key, server_of(key))).collect()
}

#[test]
fn hash_keys_follow_weights_and_are_stable() {
    let scene = Scene::new(by_path(1_000), &[1, 1, 2]);
    let places = keys(&scene);
    assert_eq!(places, keys(&scene));
    let count = |port| places.values().filter(|server| **server == address(port)).count();
    assert!((200..300).contains(&count(1)) && (200..300).contains(&count(2)), "{}, {}", count(1), count(2));
    assert!((450..550).contains(&count(3)), "{}", count(3));
}

#[test]
fn removed_server_moves_only_its_hash_keys_to_all_others() {
    let before = keys(&Scene::new(by_path(1_000), &[1; 5]));
    let mut smaller = Scene::config(by_path(1_000), &[1; 5]);
    smaller.servers.remove(2);
    let gone = address(3);
    // The order of the servers makes no difference.
    smaller.servers.reverse();
    let after = keys(&Scene::with(smaller));
    let mut moved = HashMap::<_, usize>::new();
    for (key, server) in &before {
        if *server == gone {
            *moved.entry(after[key].clone()).or_default() += 1;
        } else {
            assert_eq!(after[key], *server);
        }
    }
    assert_eq!(moved.len(), 4);
    assert!(moved.values().all(|count| (25..85).contains(count)), "{moved:?}");
}

#[test]
fn popular_hash_key_is_spread_at_load_max_percent() {
    let scene = Scene::new(by_path(125), &[1, 1, 2]);
    let slots: Vec<_> = (0..400)
        .map(|_| scene.slot_for(&RequestKey { hash: Some(7), ..RequestKey::default() }, &[]).unwrap())
        .collect();
    let counts = [0, 1, 2].map(|place| scene.server(place).in_flight());
    assert_eq!(counts.iter().sum::<usize>(), slots.len());
    for (count, share) in counts.iter().zip([100, 100, 200]) {
        assert!(*count <= share * 125 / 100, "{counts:?}");
    }
}

#[test]
fn sticky_cookie_selects_its_server_while_available() {
    for balance in all() {
        let sticky = Some(Sticky::new("c"));
        let scene = Scene::with(UpstreamConfig { sticky, ..Scene::config(balance, &[1, 1, 0]) });
        let place_with = |token, tried: &[usize]| {
            let key = RequestKey { hash: Some(1), sticky: Some(token), ..RequestKey::default() };
            scene.place_of(&scene.slot_for(&key, tried).unwrap())
        };
        for place in [0, 1, 2] {
            let token = scene.server(place).token;
            assert_eq!([0; 5].map(|_| place_with(token, &[])), [place; 5]);
            assert_ne!(place_with(token, &[place]), place);
        }
        assert_ne!(place_with(1, &[]), 2, "an unknown token is ignored");
        scene.server(0).health().set_retry_after(Duration::from_secs(1), scene.now());
        assert_eq!(place_with(scene.server(0).token, &[]), 1);
    }
}

#[test]
fn weight_is_limited_to_weight_max() {
    let scene = Scene::new(Balance::RoundRobin, &[u32::MAX, 1]);
    assert_eq!(scene.server(0).weight, ServerConfig::WEIGHT_MAX);
}
