//! Tests that the figures are right, with servers of known response times.

use std::time::Duration;

use thruway_bench::{ConnectionOptions, FailureKind, Limit, Pace, Times};
use thruway_testkit::Random;

use crate::scene::{Reaction, Scene};

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

/// Quantile function of the server's response times: exponential with a mean of 2 ms, plus 0.1 ms.
fn quantile(share: f64) -> f64 {
    1e-4 - 2e-3 * (1.0 - share).ln()
}

fn assert_near(found: Duration, expected: f64, tolerance: f64, name: &str) {
    let ratio = found.as_secs_f64() / expected;
    assert!((ratio - 1.0).abs() <= tolerance, "{name}: {found:?} instead of {expected} s");
}

fn assert_distributed(times: &Times) {
    for percentile in [50.0, 75.0, 90.0, 99.0, 99.9] {
        let expected = quantile(percentile / 100.0);
        assert_near(times.percentile(percentile), expected, 0.03, &format!("p{percentile}"));
    }
    assert_near(times.mean(), 2.1e-3, 0.01, "mean");
}

/// Every quantile of the distribution once, in random order.
fn delays(count: usize) -> Vec<Duration> {
    let mut delays: Vec<_> = (0..count)
        .map(|place| Duration::from_secs_f64(quantile((place as f64 + 0.5) / count as f64)))
        .collect();
    let mut random = Random::new(7);
    for place in (1..count).rev() {
        delays.swap(place, random.below(place + 1));
    }
    delays
}

#[test]
fn percentiles_match_a_known_distribution_of_response_times() {
    const REQUESTS: usize = 50_000;
    for pace in [Pace::Closed, Pace::Poisson { rate: 5000.0, seed: 3 }] {
        let delays = delays(REQUESTS);
        // Enough connections that no request waits for one in the open loop.
        let scene =
            Scene { pace, limit: Limit::Requests(REQUESTS as u64), connections: 64, ..Scene::default() };
        let outcome = scene.run(move |number, _| Reaction::proper(delays[number as usize]));
        assert_eq!((outcome.record.answered, outcome.record.failed()), (REQUESTS as u64, 0));
        assert_distributed(&outcome.record.service);
        assert_distributed(&outcome.record.response);
    }
}

/// Takes a millisecond, except during one second in ten, in which the server stalls.
fn stalls_one_second_in_ten(_: u64, now: Duration) -> Reaction {
    let into = Duration::from_nanos((now.as_nanos() % (10 * SECOND).as_nanos()) as u64);
    let stall = 5 * SECOND..6 * SECOND;
    let rest = if stall.contains(&into) { stall.end.saturating_sub(into) } else { Duration::ZERO };
    Reaction::proper(rest + MILLISECOND)
}

#[test]
fn open_loop_shows_a_stall_and_closed_loop_does_not() {
    let scene = |pace| Scene {
        pace,
        limit: Limit::Duration(50 * SECOND),
        // Enough connections to send the waiting requests within 5 ms.
        connections: 100,
        ..Scene::default()
    };
    let open = scene(Pace::Constant { rate: 500.0 }).run(stalls_one_second_in_ten).record;
    assert_eq!((open.answered, open.failed()), (25_000, 0));
    // A tenth of the requests start during a stall. Their waits are evenly spread up to a second.
    assert_near(open.response.percentile(99.0), 0.9, 0.03, "p99");
    assert_near(open.response.percentile(95.0), 0.5, 0.05, "p95");
    assert_near(open.response.percentile(50.0), 0.001, 0.01, "p50");
    assert_near(open.response.max(), 1.001, 0.01, "max");

    let closed = Scene { connections: 5, limit: Limit::Duration(10 * SECOND), ..scene(Pace::Closed) };
    let closed = closed.run(stalls_one_second_in_ten).record;
    assert!(closed.response.percentile(99.0) < 2 * MILLISECOND, "five of thousands of requests noticed it");
}

#[test]
fn achieved_rate_equals_offered_rate_below_capacity() {
    // Ten connections with 1 ms per request reach 10,000 requests per second.
    for pace in [Pace::Constant { rate: 8000.0 }, Pace::Poisson { rate: 8000.0, seed: 1 }] {
        let scene = Scene { pace, limit: Limit::Duration(5 * SECOND), connections: 10, ..Scene::default() };
        let outcome = scene.run(|_, _| Reaction::proper(MILLISECOND));
        let achieved = outcome.record.answered as f64 / 5.0;
        assert!((achieved / 8000.0 - 1.0).abs() < 0.01, "{achieved}");
        // Requests that wait for a connection when the load ends.
        let unsent = outcome.record.failed_as(FailureKind::Unsent);
        assert!(outcome.record.failed() == unsent && unsent < 10, "{unsent}");
    }
}

/// Regression test: the achieved rate was the number of responses divided by the time until the last one. No
/// server seemed to achieve a rate if its responses took a hundredth of the measured time.
#[test]
fn healthy_server_of_any_latency_achieves_the_offered_rate() {
    for latency in [MILLISECOND, 100 * MILLISECOND, 3 * SECOND] {
        for pace in [Pace::Constant { rate: 1000.0 }, Pace::Poisson { rate: 1000.0, seed: 5 }] {
            for limit in [Limit::Duration(2 * SECOND), Limit::Requests(2000)] {
                let connection_options =
                    ConnectionOptions { drain: 5 * SECOND, ..Scene::default().connection_options };
                let scene = Scene {
                    pace: pace.clone(),
                    limit,
                    connection_options,
                    connections: 3500,
                    ..Scene::default()
                };
                let record = scene.run(move |number, _| {
                    let straggles = if number == 1500 { 900 * MILLISECOND } else { Duration::ZERO };
                    Reaction::proper(latency + straggles)
                });
                let record = record.record;
                assert_eq!(record.failed(), 0, "{latency:?}");
                let achieved =
                    record.achieved_requests_per_second(2 * SECOND) / (record.answered as f64 / 2.0);
                assert!((achieved - 1.0).abs() < 1e-9, "{achieved} of {pace:?} at {latency:?}");
            }
        }
    }
}

#[test]
fn overloaded_server_achieves_its_capacity_with_any_connection_count() {
    for (connections, rate) in [(1, 1000.0), (4, 1000.0), (3000, 1000.0), (3000, 520.0)] {
        let pace = Pace::Constant { rate };
        let connection_options =
            ConnectionOptions { drain: 5 * SECOND, ..Scene::default().connection_options };
        let scene = Scene {
            pace,
            limit: Limit::Duration(2 * SECOND),
            connection_options,
            connections,
            ..Scene::default()
        };
        // The server answers one request after the other, 500 per second.
        let mut free_at = Duration::ZERO;
        let record = scene.run(move |_, now| {
            free_at = free_at.max(now) + 2 * MILLISECOND;
            Reaction::proper(free_at.saturating_sub(now))
        });
        let achieved = record.record.achieved_requests_per_second(2 * SECOND);
        assert!((490.0..=510.0).contains(&achieved), "{achieved} at {rate} on {connections}");
    }
}

#[test]
fn stop_flag_shortens_the_wait_for_the_last_responses() {
    for (pace, limit) in
        [(Pace::Constant { rate: 10.0 }, Limit::Duration(SECOND)), (Pace::Closed, Limit::Requests(5))]
    {
        let connection_options = ConnectionOptions {
            timeout: 60 * SECOND,
            drain: 60 * SECOND,
            ..Scene::default().connection_options
        };
        let stops_at = Some(2 * SECOND);
        let scene = Scene { pace, limit, connection_options, stops_at, connections: 5, ..Scene::default() };
        let outcome = scene.run(|_, _| Reaction::proper(50 * SECOND));
        assert_eq!(outcome.record.answered, 0);
        assert!(outcome.ended < 3200 * MILLISECOND, "{:?}", outcome.ended);
    }
}

/// Regression test: requests that were due in the last moment were not sent, although connections were free.
/// In a short load, that was more than one percent.
#[test]
fn request_due_just_before_the_end_is_sent() {
    for connections in [1, 4] {
        // The last request is due within the last millisecond, and the worker wakes up after the end.
        let pace = Pace::Constant { rate: 10.0 };
        let limit = Limit::Duration(SECOND + Duration::from_micros(1));
        let scene = Scene { pace, limit, connections, is_late: true, ..Scene::default() };
        let record = scene.run(|_, _| Reaction::proper(MILLISECOND)).record;
        assert_eq!((record.answered, record.failed()), (11, 0), "{connections}");
    }
}

#[test]
fn unsent_requests_count_with_their_waiting_time() {
    // Four times the capacity of one connection with 10 ms per request.
    let scene = Scene {
        pace: Pace::Constant { rate: 400.0 },
        limit: Limit::Duration(10 * SECOND),
        ..Scene::default()
    };
    let record = scene.run(|_, _| Reaction::proper(10 * MILLISECOND)).record;
    let unsent = record.failed_as(FailureKind::Unsent);
    assert_eq!(record.answered + record.failed(), 4000);
    assert!((2990..=3010).contains(&unsent), "{unsent}");
    assert_eq!(record.response.count(), 4000);
    // The last answered request was due at 2.5 s. The first unanswered one was due at the same time and
    // waited until 10 s.
    assert_near(record.response.max(), 7.5, 0.01, "max");
    assert!(record.service.max() < 11 * MILLISECOND);
}

#[test]
fn closed_loop_ends_on_time_and_cut_off_requests_do_not_fail() {
    let scene = Scene { limit: Limit::Duration(SECOND), connections: 3, ..Scene::default() };
    let outcome = scene.run(|_, _| Reaction::proper(300 * MILLISECOND));
    assert_eq!((outcome.record.answered, outcome.record.failed(), outcome.record.cut_off), (9, 0, 3));
    assert_eq!(outcome.ended, SECOND);
}

/// Regression test: a server stalled during the last second. All requests that waited were cut off, and no
/// figure included them.
#[test]
fn cut_off_requests_have_waiting_times() {
    let scene = Scene { limit: Limit::Duration(10 * SECOND), connections: 4, ..Scene::default() };
    let stalls = |_, now| Reaction::proper(if now < 9 * SECOND { MILLISECOND } else { 20 * SECOND });
    let record = scene.run(stalls).record;
    assert_eq!((record.cut_off, record.cut_off_waits.count()), (4, 4));
    assert_near(record.cut_off_waits.max(), 1.0, 0.02, "the longest");
    assert_eq!(record.answered, 36_000);
}

#[test]
fn warm_up_is_not_measured() {
    let slow_at_first = |_, now| Reaction::proper(if now < SECOND { 100 * MILLISECOND } else { MILLISECOND });
    for limit in [Limit::Requests(1000), Limit::Duration(SECOND)] {
        let scene = Scene { limit, warm_up: SECOND, ..Scene::default() };
        let outcome = scene.run(slow_at_first);
        assert!((999..=1001).contains(&outcome.record.answered), "{}", outcome.record.answered);
        assert!(outcome.record.service.max() <= 2 * MILLISECOND);
        // The tenth request ends exactly when the measurement begins.
        let not_measured = outcome.read - outcome.record.answered - outcome.record.cut_off;
        assert_eq!(not_measured, if matches!(limit, Limit::Requests(_)) { 10 } else { 9 });
    }
}

/// Regression test: only requests that began and ended in the measured time were counted. With ten thousand
/// connections and 60,000 requests per second, a measurement of one second lost a sixth.
#[test]
fn closed_loop_counts_by_end_time_and_measures_by_start_time() {
    for latency in [70 * MILLISECOND, 300 * MILLISECOND] {
        let limit = Limit::Duration(3 * SECOND);
        let scene = Scene { limit, warm_up: SECOND, connections: 10, ..Scene::default() };
        let record = scene.run(move |_, _| Reaction::proper(latency)).record;
        let (latency, second) = (latency.as_millis() as u64, 1000);
        // On each connection, requests end at every multiple of the latency.
        let ends = 4 * second / latency - (second - 1) / latency;
        let begins_before = second.div_ceil(latency) * latency;
        assert_eq!(record.answered, 10 * ends, "{latency} ms");
        assert_eq!(
            record.service.count(),
            10 * (4 * second / latency - begins_before / latency),
            "{latency} ms"
        );
        let expected = 10_000.0 / latency as f64;
        let achieved = record.achieved_requests_per_second(3 * SECOND);
        assert!((achieved / expected - 1.0).abs() < 0.02, "{achieved} instead of {expected}");
    }
}

#[test]
fn stop_flag_keeps_the_measurements_so_far() {
    for pace in [Pace::Closed, Pace::Constant { rate: 50.0 }] {
        let limit = Limit::Requests(1_000_000);
        let scene = Scene { pace, limit, stops_at: Some(2 * SECOND), ..Scene::default() };
        let outcome = scene.run(|_, _| Reaction::proper(10 * MILLISECOND));
        assert!((90..=210).contains(&outcome.record.answered), "{}", outcome.record.answered);
        assert_eq!(outcome.record.failed(), 0);
        assert!(outcome.ended < 2200 * MILLISECOND, "{:?}", outcome.ended);
    }
}

#[test]
fn sent_received_and_body_bytes_are_counted() {
    let scene = Scene { limit: Limit::Requests(10), ..Scene::default() };
    let record = scene.run(|_, _| Reaction::proper(MILLISECOND)).record;
    let request = "GET /0 HTTP/1.1\r\nHost: a.example\r\n\r\n".len() as u64;
    assert_eq!(record.sent_bytes, 10 * request);
    assert_eq!(record.received_bytes, 10 * crate::scene::PROPER.len() as u64);
    assert_eq!((record.content_bytes, record.connections_opened), (20, 1));
    assert_eq!(record.statuses(), [(200, 10)]);
}
