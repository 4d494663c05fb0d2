//! Tests of slow upstream servers.

use std::time::Duration;

use thruway_client::{Config, Error, Retry, Timeouts};
use thruway_http1::BodyLength;
use thruway_testkit::upstream;

use crate::line::{GET, Line, get};

const TIMEOUTS: Timeouts = Timeouts {
    head: Duration::from_secs(10),
    content_idle: Duration::from_secs(5),
    write_stall: Duration::from_secs(3),
    expect_continue: Duration::from_secs(1),
    total: None,
};

impl Line {
    fn timed(mut self, timeouts: Timeouts) -> Self {
        self.exchange.set_timeouts(timeouts);
        self
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn seconds_left(&self) -> Option<u64> {
        Some(self.exchange.deadline()?.saturating_sub(self.now).as_secs())
    }
}

#[test]
fn silence_instead_of_a_head_is_a_timeout() {
    for upstream in [upstream::accepts_and_says_nothing(), upstream::stalls_in_head()] {
        let mut line = Line::get().timed(TIMEOUTS);
        line.peer.send(&upstream.answer);
        assert_eq!((line.read().as_str(), line.seconds_left()), ("…", Some(10)));
        line.pass(9);
        // A head that arrives byte by byte does not extend the timeout.
        line.peer.send(if upstream.answer.is_empty() { "" } else { "X: y\r\n" });
        assert_eq!((line.read().as_str(), line.seconds_left()), ("…", Some(1)));
        line.pass(1);
        let error = line.error();
        assert_eq!(
            (error, error.is_timeout(), error.retry()),
            (Error::HeadTimedOut, true, Retry::IfIdempotent)
        );
    }
}

#[test]
fn an_interim_response_begins_the_wait_anew() {
    let mut line = Line::get().timed(TIMEOUTS);
    assert_eq!(line.read(), "…");
    line.pass(9);
    line.peer.send("HTTP/1.1 102 \r\n\r\n");
    assert_eq!((line.read().as_str(), line.seconds_left()), ("102 …", Some(10)));
}

#[test]
fn content_that_stalls_is_a_timeout_and_content_that_drips_is_not() {
    let mut line = Line::get().timed(TIMEOUTS);
    line.peer.send(upstream::stalls_in_content().answer);
    assert_eq!((line.read().as_str(), line.seconds_left()), ("200 `four` …", Some(5)));
    line.pass(4);
    line.peer.send("5");
    assert_eq!((line.read().as_str(), line.seconds_left()), ("`5` …", Some(5)));
    line.pass(5);
    assert_eq!(line.error(), Error::ContentTimedOut);
}

#[test]
fn what_came_in_time_is_read_however_late_it_is_looked_at() {
    let mut line = Line::get().timed(TIMEOUTS);
    assert_eq!(line.read(), "…");
    line.pass(1);
    line.peer.send(upstream::PROPER);
    line.pass(1000);
    assert_eq!(line.read(), "200 `ok` end");
    assert_eq!(line.seconds_left(), None);
}

#[test]
fn an_upstream_is_not_blamed_for_a_request_that_is_slow_to_come() {
    let mut line = Line::post(BodyLength::Bytes(2)).timed(TIMEOUTS);
    assert_eq!((line.read().as_str(), line.seconds_left()), ("…", None));
    line.pass(1000);
    assert_eq!((line.read().as_str(), line.seconds_left()), ("…", None));
    assert!(line.send(b"ok").is_ready());
    assert_eq!((line.read().as_str(), line.seconds_left()), ("…", Some(10)));
}

#[test]
fn an_upstream_that_takes_nothing_is_given_up() {
    let mut line = Line::post(BodyLength::Bytes(1 << 20)).timed(TIMEOUTS);
    line.peer.take_only(100);
    let content = vec![b'a'; 50_000];
    assert!(line.send(&content).is_ready());
    assert!(line.send(&content).is_pending());
    assert_eq!(line.seconds_left(), Some(3));
    line.pass(2);
    line.peer.take_more(1);
    assert!(line.send(&content).is_ready());
    assert!(line.send(&content).is_pending());
    assert_eq!(line.seconds_left(), Some(3));
    line.pass(3);
    assert_eq!(line.error(), Error::WriteTimedOut);
}

/// A write timeout once allowed a retry although the final response had started.
#[test]
fn an_upstream_that_answers_need_not_take_the_rest_of_the_request() {
    let mut line = Line::post(BodyLength::Bytes(1 << 20)).timed(TIMEOUTS);
    line.peer.take_only(100);
    let content = vec![b'a'; 50_000];
    assert!(line.send(&content).is_ready());
    assert!(line.send(&content).is_pending());
    line.peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no");
    assert_eq!((line.read().as_str(), line.seconds_left()), ("200 `o` …", Some(5)));
    line.pass(4);
    assert!(line.send(&content).is_pending());
    line.pass(1);
    let error = line.error();
    assert_eq!((error, error.retry()), (Error::ContentTimedOut, Retry::Never));
}

#[test]
fn the_total_counts_everything() {
    let total = Some(Duration::from_secs(7));
    let config = Config { timeouts: Timeouts { total, ..TIMEOUTS }, ..Config::default() };
    let mut line = Line::with(get(), GET, &config);
    line.peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
    assert_eq!((line.read().as_str(), line.seconds_left()), ("200 …", Some(5)));
    for seconds_left in [4, 2, 0] {
        line.pass(2 + u64::from(seconds_left == 0) - u64::from(seconds_left == 4));
        line.peer.send("a");
        if seconds_left > 0 {
            line.read();
        }
    }
    line.pass(2);
    assert_eq!(line.read(), "`a` TimedOut");
    assert_eq!(Error::TimedOut.retry(), Retry::Never);
}
