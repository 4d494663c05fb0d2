//! Tests of pipelining: each request has its own time, and requests that the server did not process are sent
//! again.

use std::time::Duration;

use thruway_bench::{ConnectionOptions, FailureKind, Limit};

use crate::scene::{PROPER, Reaction, Scene, Then};

const MILLISECOND: Duration = Duration::from_millis(1);

fn pipelined(depth: usize, requests: u64) -> Scene {
    let connection_options = ConnectionOptions { pipeline: depth, ..Scene::default().connection_options };
    Scene { connection_options, limit: Limit::Requests(requests), ..Scene::default() }
}

#[test]
fn batch_is_sent_in_one_write_and_each_response_is_timed() {
    // The responses of a batch arrive 10 ms apart.
    let react = |number: u64, _| Reaction::proper(10 * MILLISECOND * (number % 10 + 1) as u32);
    let outcome = pipelined(10, 1000).run(react);
    assert_eq!((outcome.record.answered, outcome.writes), (1000, 100));
    let times = &outcome.record.service;
    for (percentile, expected) in [(10.0, 10), (50.0, 50), (90.0, 90), (100.0, 100)] {
        let found = times.percentile(percentile).as_secs_f64() * 1000.0;
        assert!((found / f64::from(expected) - 1.0).abs() < 0.01, "p{percentile}: {found}");
    }
}

#[test]
fn requests_after_connection_close_are_resent_and_counted_once() {
    let closes = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    // The server closes each connection after the fourth response.
    let react = move |number: u64, _| match number % 8 {
        3 => Reaction::with(closes, Then::Finish),
        0..3 => Reaction::with(PROPER, Then::KeepOpen),
        _ => Reaction::with("", Then::KeepOpen),
    };
    let outcome = pipelined(8, 64).run(react);
    let record = &outcome.record;
    assert_eq!((record.answered, record.failed()), (64, 0));
    assert!(record.sent_again > 0 && outcome.read > 64);
    assert_eq!(record.service.count(), 64);
}

#[test]
fn pipelined_requests_after_a_failure_are_abandoned() {
    let react = |number: u64, _| match number {
        5 => Reaction::with("rubbish\r\n", Then::KeepOpen),
        _ => Reaction::with(PROPER, Then::KeepOpen),
    };
    let record = pipelined(8, 16).run(react).record;
    assert_eq!(record.failed_as(FailureKind::Malformed), 1);
    assert_eq!(record.failed_as(FailureKind::Abandoned), 2);
    assert_eq!((record.answered, record.failed()), (13, 3));
}
