//! Retries after responses with a configured status.

use std::time::Duration;

use thruway_gateway::{
    AdminState, EjectionConfig, RequestDurations, RetryBudget, ServerState, UpstreamConfig,
};

use super::{Client, Script};
use crate::backend::{Backend, Behavior};
use crate::gateway::{Gateway, only, until};

const PROPER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn failing(status: u16, name: &'static str) -> Backend {
    Backend::start(Behavior::Responds { status, lines: "X-From: server\r\n", name })
}

/// Returns an upstream with these servers. The statuses 502 to 504 cause retries.
fn retrying<'b>(backends: impl IntoIterator<Item = &'b Backend>) -> UpstreamConfig {
    let mut config = UpstreamConfig::new("a", backends.into_iter().map(Backend::upstream_address));
    config.ejection.failures = 0;
    UpstreamConfig { retry_statuses: vec!["502-504".parse().unwrap()], ..config }
}

/// Returns the number of recorded responses of each server.
fn responses_of_servers(gateway: &Gateway) -> Vec<u64> {
    let servers = gateway.upstream.server_statuses();
    servers.iter().map(|server| server.durations.iter().map(RequestDurations::count).sum()).collect()
}

#[test]
fn only_idempotent_requests_are_retried_after_a_configured_status() {
    for (status, is_retried) in [(503, true), (500, false)] {
        let (failing, proper) = (failing(status, "failing"), Backend::named("proper"));
        let gateway = Gateway::start(retrying([&failing, &proper]));
        let statuses: Vec<_> = (0..4).map(|_| gateway.get().status).collect();
        let expected = if is_retried { [200; 4] } else { [status, 200, status, 200] };
        assert_eq!(statuses, expected);
        assert_eq!(gateway.upstream.retries() > 0, is_retried);
        let posted: Vec<_> = (0..2).map(|_| gateway.ask("POST", "Content-Length: 0\r\n").status).collect();
        assert!(posted.contains(&status) && posted.contains(&200), "{posted:?}");
    }
}

#[test]
fn client_gets_the_last_response_unchanged_if_all_servers_fail() {
    let (one, two) = (failing(503, "one"), failing(504, "two"));
    let gateway = Gateway::start(UpstreamConfig { retries_max: 1, ..retrying([&one, &two]) });
    let got = gateway.get();
    assert_eq!((got.status, got.content.as_str()), (504, "two"));
    assert_eq!((got.field("x-from"), got.field("proxy-status")), (Some("server"), None));
    assert_eq!((one.requests(), two.requests(), gateway.upstream.retries()), (1, 1, 1));
}

#[test]
fn used_up_budget_passes_on_the_first_response() {
    let (one, two) = (failing(503, "one"), Backend::named("two"));
    let retry_budget = RetryBudget { percent: 0, per_second_min: 0 };
    let gateway = Gateway::start(UpstreamConfig { retry_budget, ..retrying([&one, &two]) });
    assert_eq!(gateway.get().content, "one");
    assert_eq!((two.requests(), gateway.upstream.retries()), (0, 0));
}

#[test]
fn ejection_counts_every_rejected_response() {
    let (one, two, proper) = (failing(503, "one"), failing(503, "two"), Backend::named("proper"));
    let time = Duration::from_hours(1);
    let ejection = EjectionConfig {
        failures: 1,
        statuses: vec!["503".parse().unwrap()],
        time,
        time_max: time,
        ..EjectionConfig::default()
    };
    let gateway = Gateway::start(UpstreamConfig { ejection, ..retrying([&one, &two, &proper]) });
    assert_eq!(gateway.get().content, "proper");
    let states: Vec<_> = gateway.upstream.server_states().into_iter().map(|(_, state, _)| state).collect();
    assert_eq!(states, [ServerState::Ejected, ServerState::Ejected, ServerState::Up]);
}

#[test]
fn response_time_of_the_upstream_is_recorded_once() {
    let (one, two) = (failing(503, "one"), Backend::named("two"));
    let gateway = Gateway::timed(retrying([&one, &two]));
    assert_eq!(gateway.get().content, "two");
    assert_eq!(responses_of_servers(&gateway), [1, 1]);
    assert_eq!(gateway.upstream.response_counts().buckets.iter().sum::<u64>(), 1);
}

#[test]
fn request_body_is_sent_again() {
    let script = Script::start();
    let config = UpstreamConfig { retry_statuses: vec!["503".parse().unwrap()], ..only(script.address) };
    let gateway = Gateway::start(config);
    let mut client = Client::new(gateway.address);
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nfour");
    let mut accepted = script.accept();
    accepted.until("four");
    client.send("+2");
    accepted.until("+2");
    accepted.send("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbu");
    accepted.send("sy");
    // The gateway has read the whole response, so it reuses the connection.
    accepted.until("four+2");
    accepted.send(PROPER);
    assert_eq!(client.answer(false).status, 200);
    assert!(script.has_no_connection());
}

#[test]
fn request_body_that_is_no_longer_kept_prevents_the_retry() {
    let script = Script::start();
    let retry_statuses = vec!["503".parse().unwrap()];
    let gateway =
        Gateway::start(UpstreamConfig { retry_statuses, replay_bytes_max: 3, ..only(script.address) });
    let mut client = Client::new(gateway.address);
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nfour");
    let mut accepted = script.accept();
    accepted.until("four");
    client.send("+2");
    accepted.until("+2");
    accepted.send("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy");
    assert_eq!((client.answer(false).text().as_str(), gateway.upstream.retries()), ("busy", 0));
}

#[test]
fn connection_with_a_large_or_slow_body_is_closed_before_the_retry() {
    for response in [
        "HTTP/1.1 503 Busy\r\nContent-Length: 65537\r\n\r\nstart".to_owned(),
        format!("HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n{}", "a".repeat(65_537)),
        "HTTP/1.1 503 Busy\r\nContent-Length: 10\r\n\r\nstart".to_owned(),
    ] {
        let script = Script::start();
        let retry_statuses = vec!["503".parse().unwrap()];
        let gateway = Gateway::start(UpstreamConfig { retry_statuses, ..only(script.address) });
        let pending = gateway.begin("GET", "");
        let mut first = script.accept();
        first.head();
        first.send(&response);
        let mut second = script.accept();
        assert_eq!(first.wait_for_end(), b"");
        second.head();
        second.send(PROPER);
        assert_eq!(pending.end().content, "ok");
    }
}

#[test]
fn client_gets_the_rejected_response_if_no_server_is_left() {
    let script = Script::start();
    let retry_statuses = vec!["503".parse().unwrap()];
    let gateway = Gateway::start(UpstreamConfig { retry_statuses, ..only(script.address) });
    let pending = gateway.begin("GET", "");
    let mut accepted = script.accept();
    accepted.head();
    accepted.send("HTTP/1.1 503 Busy\r\nX-From: server\r\nContent-Length: 4\r\n\r\nbu");
    gateway.upstream.set_admin_state(&script.address.into(), AdminState::Disabled);
    accepted.send("sy");
    let got = pending.end();
    assert_eq!((got.status, got.content.as_str(), got.field("x-from")), (503, "busy", Some("server")));
}

#[test]
fn broken_off_error_response_is_retried() {
    let script = Script::start();
    let retry_statuses = vec!["503".parse().unwrap()];
    let gateway = Gateway::timed(UpstreamConfig { retry_statuses, ..only(script.address) });
    let pending = gateway.begin("GET", "");
    let mut first = script.accept();
    first.head();
    first.send("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbu");
    // The connection must end after the gateway has read the response header.
    until(|| responses_of_servers(&gateway) == [1]);
    drop(first);
    let mut second = script.accept();
    second.head();
    second.send(PROPER);
    assert_eq!(pending.end().content, "ok");
}
