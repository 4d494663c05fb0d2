//! Tests of response times and their effect on load balancing.

use std::time::Duration;

use thruway_gateway::{Balance, ServerState, UpstreamConfig};

use crate::backend::{Backend, Behavior};
use crate::gateway::Gateway;

fn config<'b>(balance: Balance, backends: impl IntoIterator<Item = &'b Backend>) -> UpstreamConfig {
    let config = UpstreamConfig::new("a", backends.into_iter().map(Backend::upstream_address));
    UpstreamConfig { balance, ..config }
}

/// Returns how many of 20 requests each of two servers gets.
fn shares(behaviors: [Behavior; 2]) -> [usize; 2] {
    let backends = behaviors.map(Backend::start);
    let gateway = Gateway::start(config(Balance::PeakEwma, &backends));
    (0..20).for_each(|_| drop(gateway.get()));
    backends.each_ref().map(Backend::requests)
}

/// Returns the state of a server after one request.
fn state_after(balance: Balance, status: u16, lines: &'static str) -> ServerState {
    let backend = Backend::start(Behavior::Responds { status, lines, name: "" });
    let gateway = Gateway::start(config(balance, [&backend]));
    assert_eq!(gateway.get().status, status);
    gateway.upstream.server_statuses()[0].state
}

#[test]
fn slow_server_gets_few_requests() {
    let slow = Behavior::RespondsLate { time: Duration::from_millis(100), name: "slow" };
    let [slow, fast] = shares([slow, Behavior::named("fast")]);
    // The slow server gets one request as a probe, and more if the machine delays the fast one.
    assert!((1..=4).contains(&slow), "{slow} of {}", slow + fast);
}

/// Otherwise a server that fails immediately would look like the fastest one.
#[test]
fn fast_failing_server_gets_fewer_requests_than_a_slow_one() {
    for status in [502, 503, 504] {
        let fails = Behavior::Responds { status, lines: "", name: "" };
        let answers = Behavior::RespondsLate { time: Duration::from_millis(20), name: "answers" };
        let [failed, answered] = shares([fails, answers]);
        assert!((1..=4).contains(&failed), "{failed} of {} were answered {status}", failed + answered);
    }
}

#[test]
fn server_with_503_and_retry_after_is_paused() {
    let backends = [
        Backend::start(Behavior::Responds { status: 503, lines: "Retry-After: 5\r\n", name: "" }),
        Backend::named("well"),
    ];
    let gateway = Gateway::start(config(Balance::PeakEwma, &backends));
    (0..20).for_each(|_| drop(gateway.get()));
    assert_eq!(gateway.upstream.server_statuses()[0].state, ServerState::RetryAfter);
    assert_eq!(backends.each_ref().map(Backend::requests), [1, 19]);
}

#[test]
fn retry_after_accepts_seconds_or_date_only_with_503() {
    let ewma = || Balance::PeakEwma;
    for until in ["Retry-After: 5\r\n", "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\n"] {
        assert_eq!(state_after(ewma(), 503, until), ServerState::RetryAfter, "{until}");
        assert_eq!(state_after(ewma(), 429, until), ServerState::Up, "429 concerns only one client");
        assert_eq!(state_after(Balance::RoundRobin, 503, until), ServerState::Up, "{until}");
    }
    for invalid in ["Retry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "Retry-After: soon\r\n", ""] {
        assert_eq!(state_after(ewma(), 503, invalid), ServerState::Up, "{invalid}");
    }
}
