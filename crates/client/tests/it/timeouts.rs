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

    fn advance(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn seconds_left(&self) -> Option<u64> {
        Some(self.exchange.deadline()?.saturating_sub(self.now).as_secs())
    }
}

#[test]
fn missing_or_slow_head_times_out() {
    for upstream in [upstream::accepts_without_response(), upstream::stalls_mid_head()] {
        let mut line = Line::get().timed(TIMEOUTS);
        line.peer.send(&upstream.response);
        assert_eq!((line.read().as_str(), line.seconds_left()), ("…", Some(10)));
        line.advance(9);
        // A head that arrives byte by byte does not extend the timeout.
        line.peer.send(if upstream.response.is_empty() { "" } else { "X: y\r\n" });
        assert_eq!((line.read().as_str(), line.seconds_left()), ("…", Some(1)));
        line.advance(1);
        let error = line.error();
        assert_eq!(
            (error, error.is_timeout(), error.retry()),
            (Error::HeadTimedOut, true, Retry::IfIdempotent)
        );
    }
}

#[test]
fn interim_response_restarts_the_head_timeout() {
    let mut line = Line::get().timed(TIMEOUTS);
    assert_eq!(line.read(), "…");
    line.advance(9);
    line.peer.send("HTTP/1.1 102 \r\n\r\n");
    assert_eq!((line.read().as_str(), line.seconds_left()), ("102 …", Some(10)));
}

#[test]
fn stalled_body_times_out_and_slow_body_does_not() {
    let mut line = Line::get().timed(TIMEOUTS);
    line.peer.send(upstream::stalls_mid_body().response);
    assert_eq!((line.read().as_str(), line.seconds_left()), ("200 `four` …", Some(5)));
    line.advance(4);
    line.peer.send("5");
    assert_eq!((line.read().as_str(), line.seconds_left()), ("`5` …", Some(5)));
    line.advance(5);
    assert_eq!(line.error(), Error::ContentTimedOut);
}

#[test]
fn response_received_in_time_is_read_after_the_deadline() {
    let mut line = Line::get().timed(TIMEOUTS);
    assert_eq!(line.read(), "…");
    line.advance(1);
    line.peer.send(upstream::OK_RESPONSE);
    line.advance(1000);
    assert_eq!(line.read(), "200 `ok` end");
    assert_eq!(line.seconds_left(), None);
}

#[test]
fn head_timeout_starts_after_the_request_body_is_sent() {
    let mut line = Line::post(BodyLength::Bytes(2)).timed(TIMEOUTS);
    assert_eq!((line.read().as_str(), line.seconds_left()), ("…", None));
    line.advance(1000);
    assert_eq!((line.read().as_str(), line.seconds_left()), ("…", None));
    assert!(line.send(b"ok").is_ready());
    assert_eq!((line.read().as_str(), line.seconds_left()), ("…", Some(10)));
}

#[test]
fn write_stall_times_out() {
    let mut line = Line::post(BodyLength::Bytes(1 << 20)).timed(TIMEOUTS);
    line.peer.set_receive_capacity(100);
    let content = vec![b'a'; 50_000];
    assert!(line.send(&content).is_ready());
    assert!(line.send(&content).is_pending());
    assert_eq!(line.seconds_left(), Some(3));
    line.advance(2);
    line.peer.add_receive_capacity(1);
    assert!(line.send(&content).is_ready());
    assert!(line.send(&content).is_pending());
    assert_eq!(line.seconds_left(), Some(3));
    line.advance(3);
    assert_eq!(line.error(), Error::WriteTimedOut);
}

/// A write timeout once allowed a retry although the final response had started.
#[test]
fn write_stall_does_not_time_out_after_the_response_starts() {
    let mut line = Line::post(BodyLength::Bytes(1 << 20)).timed(TIMEOUTS);
    line.peer.set_receive_capacity(100);
    let content = vec![b'a'; 50_000];
    assert!(line.send(&content).is_ready());
    assert!(line.send(&content).is_pending());
    line.peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no");
    assert_eq!((line.read().as_str(), line.seconds_left()), ("200 `o` …", Some(5)));
    line.advance(4);
    assert!(line.send(&content).is_pending());
    line.advance(1);
    let error = line.error();
    assert_eq!((error, error.retry()), (Error::ContentTimedOut, Retry::Never));
}

#[test]
fn total_timeout_includes_all_phases() {
    let total = Some(Duration::from_secs(7));
    let config = Config { timeouts: Timeouts { total, ..TIMEOUTS }, ..Config::default() };
    let mut line = Line::with(get(), GET, &config);
    line.peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
    assert_eq!((line.read().as_str(), line.seconds_left()), ("200 …", Some(5)));
    for seconds_left in [4, 2, 0] {
        line.advance(2 + u64::from(seconds_left == 0) - u64::from(seconds_left == 4));
        line.peer.send("a");
        if seconds_left > 0 {
            line.read();
        }
    }
    line.advance(2);
    assert_eq!(line.read(), "`a` TimedOut");
    assert_eq!(Error::TimedOut.retry(), Retry::Never);
}
