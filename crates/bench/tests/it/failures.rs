//! Tests that each failure is counted as the right kind.

use std::time::Duration;

use thruway_bench::{ConnectionOptions, Expected, FailureKind, Limit, Pace, Record};

use crate::scene::{PROPER, Reaction, Scene, Then};

const REQUESTS: u64 = 20;

/// Every fourth request fails in this way.
fn failing(scene: Scene, bytes: &'static str, then: Then) -> Record {
    let scene = Scene { limit: Limit::Requests(REQUESTS), ..scene };
    let react = move |number, _| match number % 4 {
        1 => Reaction::with(bytes, then),
        _ => Reaction::with(PROPER, Then::KeepOpen),
    };
    scene.run(react).record
}

fn assert_only(record: &Record, kind: FailureKind, count: u64) {
    let failures: Vec<_> = record.failures().collect();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!((failures[0].0, failures[0].1), (kind, count), "{failures:?}");
    assert_eq!(record.answered, REQUESTS - count);
}

#[test]
fn broken_responses_are_counted_by_failure_kind() {
    for (bytes, then, kind) in [
        ("", Then::Finish, FailureKind::Closed),
        ("", Then::Reset, FailureKind::Reset),
        ("HTTP/1.1 200 OK\r\nContent-Le", Then::Finish, FailureKind::Incomplete),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour", Then::Finish, FailureKind::Incomplete),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour", Then::Reset, FailureKind::Reset),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nfour",
            Then::Finish,
            FailureKind::Incomplete,
        ),
        ("220 mail.example ready\r\n", Then::KeepOpen, FailureKind::Malformed),
        ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", Then::KeepOpen, FailureKind::Malformed),
        ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\n\r\n", Then::KeepOpen, FailureKind::Malformed),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour", Then::KeepOpen, FailureKind::TimedOut),
        ("", Then::KeepOpen, FailureKind::TimedOut),
    ] {
        let record = failing(Scene::default(), bytes, then);
        assert_only(&record, kind, REQUESTS / 4);
        assert_eq!(record.connections_opened, 1 + REQUESTS / 4, "{bytes:?}");
    }
}

#[test]
fn unexpected_responses_fail_and_keep_the_connection() {
    let three = Expected { content_bytes: Some(2), ..Expected::default() };
    let digest = "2689367b205c16ce32ed4200942b8b8b1e262dfc70d9bc9fbc77c49699a4f1df";
    let ok = Expected { sha256: Some(Expected::parse_digest(digest).unwrap()), ..Expected::default() };
    for (expected, bytes, kind) in [
        (Expected::default(), "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", FailureKind::WrongStatus),
        (three, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", FailureKind::WrongLength),
        (ok, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno", FailureKind::WrongDigest),
    ] {
        let record = failing(Scene { expected, ..Scene::default() }, bytes, Then::KeepOpen);
        assert_only(&record, kind, REQUESTS / 4);
        assert_eq!(record.connections_opened, 1);
        assert_eq!(record.statuses().iter().map(|(_, count)| count).sum::<u64>(), REQUESTS);
    }
}

#[test]
fn bytes_after_a_response_count_as_surplus() {
    let two = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    for bytes in ["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokay", two] {
        let record = failing(Scene::default(), bytes, Then::KeepOpen);
        let failures: Vec<_> = record.failures().collect();
        assert_eq!(failures, [(FailureKind::Surplus, REQUESTS / 4, String::new())]);
        assert_eq!((record.answered, record.connections_opened), (REQUESTS, 1 + REQUESTS / 4));
    }
}

#[test]
fn truncated_second_response_of_a_pipeline_is_incomplete() {
    let connection_options = ConnectionOptions { pipeline: 2, ..Scene::default().connection_options };
    let scene = Scene { connection_options, limit: Limit::Requests(2), ..Scene::default() };
    // One read returns both responses.
    let react = |number, _| match number {
        0 => Reaction::with(PROPER, Then::KeepOpen),
        _ => Reaction::with("HTTP/1.1 200 OK\r\nContent-", Then::Finish),
    };
    let record = scene.run(react).record;
    assert_eq!((record.answered, record.failed_as(FailureKind::Incomplete), record.failed()), (1, 1, 1));
}

#[test]
fn first_failure_of_each_kind_is_kept_as_an_example() {
    let record = failing(Scene::default(), "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", Then::KeepOpen);
    assert_eq!(record.failures().next().unwrap().2, "404");
    let record = failing(Scene::default(), "rubbish\r\n", Then::KeepOpen);
    assert_eq!(record.failures().next().unwrap().2, "the status line is invalid");
}

#[test]
fn body_without_length_ends_when_the_connection_closes() {
    let scene = Scene { limit: Limit::Requests(REQUESTS), ..Scene::default() };
    let record = scene.run(|_, _| Reaction::with("HTTP/1.0 200 OK\r\n\r\nok", Then::Finish)).record;
    assert_eq!((record.answered, record.failed()), (REQUESTS, 0));
    assert_eq!((record.content_bytes, record.connections_opened), (2 * REQUESTS, REQUESTS));
}

#[test]
fn refused_connections_are_retried_with_a_pause() {
    let scene = Scene { limit: Limit::Duration(Duration::from_secs(10)), refuses: true, ..Scene::default() };
    let record = scene.run(|_, _| unreachable!("nothing arrives")).record;
    let refused = record.failed_as(FailureKind::Refused);
    assert!((10..100).contains(&refused), "{refused}");
    assert_eq!((record.answered, record.failed()), (0, refused));
}

#[test]
fn load_with_request_limit_gives_up_if_no_connection_succeeds() {
    let scene = Scene { limit: Limit::Requests(1_000_000), refuses: true, ..Scene::default() };
    let outcome = scene.run(|_, _| unreachable!("nothing arrives"));
    assert!(outcome.record.is_given_up && outcome.record.failed() > 0);
    assert!((5.0..6.0).contains(&outcome.ended.as_secs_f64()), "{:?}", outcome.ended);
}

#[test]
fn timed_out_request_counts_with_its_waiting_time() {
    let connection_options =
        ConnectionOptions { timeout: Duration::from_secs(1), ..Scene::default().connection_options };
    let record = failing(Scene { connection_options, ..Scene::default() }, "", Then::KeepOpen);
    assert_only(&record, FailureKind::TimedOut, REQUESTS / 4);
    assert!(record.response.percentile(90.0) >= Duration::from_millis(999));
}

#[test]
fn requests_unanswered_at_the_end_of_an_open_loop_fail() {
    let scene = Scene {
        pace: Pace::Constant { rate: 100.0 },
        limit: Limit::Duration(Duration::from_secs(1)),
        connections: 200,
        ..Scene::default()
    };
    // The second half is never answered, and no timeout expires before the load ends.
    let outcome = scene.run(|number, _| match number {
        0..50 => Reaction::with(PROPER, Then::KeepOpen),
        _ => Reaction::with("", Then::KeepOpen),
    });
    assert_eq!((outcome.record.answered, outcome.record.failed_as(FailureKind::Unanswered)), (50, 50));
    assert_eq!(outcome.record.failed(), 50);
}

#[test]
fn without_keep_alive_each_request_uses_a_new_connection() {
    let connection_options =
        ConnectionOptions { is_persistent: false, ..Scene::default().connection_options };
    let scene =
        Scene { connection_options, limit: Limit::Requests(REQUESTS), connections: 2, ..Scene::default() };
    let closes = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    let record = scene.run(move |_, _| Reaction::with(closes, Then::Finish)).record;
    assert_eq!((record.answered, record.failed(), record.connections_opened), (REQUESTS, 0, REQUESTS));
}
