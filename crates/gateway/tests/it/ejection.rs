//! Tests of ejection: the errors that clients see, and the time at which servers get requests again.

use std::time::Duration;

use thruway_client::{Config, Timeouts};
use thruway_gateway::{EjectionConfig, UpstreamConfig};
use thruway_testkit::upstream;

use crate::backend::{Backend, Behavior};
use crate::gateway::{Gateway, STALL_TIMEOUT, until};

fn config<'b>(backends: impl IntoIterator<Item = &'b Backend>) -> UpstreamConfig {
    let ejection =
        EjectionConfig { failures: 2, time: Duration::from_millis(50), ..EjectionConfig::default() };
    UpstreamConfig {
        ejection,
        ..UpstreamConfig::new("a", backends.into_iter().map(Backend::upstream_address))
    }
}

/// Ejects servers for longer than any test takes.
fn with_long_ejection(config: UpstreamConfig) -> UpstreamConfig {
    let time = Duration::from_hours(1);
    let ejection = EjectionConfig { time, time_max: time, ..config.ejection };
    UpstreamConfig { ejection, ..config }
}

#[test]
fn flapping_server_causes_no_client_errors() {
    let (one, two) = (Backend::named("one"), Backend::named("two"));
    let mut flapping = Backend::absent(Behavior::named("flapping"));
    let gateway = Gateway::start(config([&one, &flapping, &two]));
    for _ in 0..3 {
        (0..10).for_each(|_| assert_eq!(gateway.get().status, 200));
        flapping.restart();
        until(|| gateway.get().content == "flapping");
        flapping.stop();
    }
    (0..10).for_each(|_| assert_eq!(gateway.get().status, 200));
}

#[test]
fn recovered_servers_get_requests_at_once_if_all_were_down() {
    let mut backends = ["one", "two"].map(|name| Backend::absent(Behavior::named(name)));
    let gateway = Gateway::start(with_long_ejection(config(&backends)));
    for _ in 0..10 {
        let got = gateway.get();
        assert_eq!((got.status, got.field("proxy-status")), (502, Some("thruway; error=connection_refused")));
    }
    backends.iter_mut().for_each(Backend::restart);
    until(|| gateway.get().status == 200);
    // The server that was ejected still gets no requests.
    (0..10).for_each(|_| assert_eq!(gateway.get().status, 200));
}

#[test]
fn silent_server_that_accepts_connections_is_ejected() {
    let (silent, proper) = (Backend::start(Behavior::NeverResponds), Backend::named("proper"));
    let timeouts = Timeouts { head: STALL_TIMEOUT, ..Timeouts::default() };
    let exchange = Config { timeouts, ..Config::default() };
    let gateway =
        Gateway::start(UpstreamConfig { exchange, ..with_long_ejection(config([&silent, &proper])) });
    let got: Vec<_> = (0..4).map(|_| gateway.ask("POST", "Content-Length: 0\r\n")).collect();
    let statuses: Vec<_> = got.iter().map(|got| got.status).collect();
    assert_eq!(statuses, [504, 200, 504, 200]);
    assert_eq!(got[0].field("proxy-status"), Some("thruway; error=http_response_timeout"));
    (0..10).for_each(|_| assert_eq!(gateway.ask("POST", "Content-Length: 0\r\n").status, 200));
    assert_eq!(silent.requests(), 2);
}

#[test]
fn idempotent_request_is_retried_elsewhere_if_server_is_silent() {
    let (silent, proper) = (Backend::start(Behavior::NeverResponds), Backend::named("proper"));
    let timeouts = Timeouts { head: STALL_TIMEOUT, ..Timeouts::default() };
    let exchange = Config { timeouts, ..Config::default() };
    let gateway =
        Gateway::start(UpstreamConfig { exchange, ..with_long_ejection(config([&silent, &proper])) });
    (0..6).for_each(|_| assert_eq!(gateway.get().content, "proper"));
    assert_eq!(silent.requests(), 2);
}

#[test]
fn ejected_server_gets_a_trial_request_and_recovers() {
    let (closing, proper) = (Backend::start(Behavior::Closes), Backend::named("proper"));
    let mut config = config([&closing, &proper]);
    // The server must stay ejected during the requests below.
    config.ejection.time = STALL_TIMEOUT;
    let gateway = Gateway::start(config);
    // A POST may have taken effect, so it is not retried on the next server. An idempotent request is.
    let statuses: Vec<_> = (0..2).map(|_| gateway.ask("POST", "Content-Length: 0\r\n").status).collect();
    assert_eq!(statuses, [502, 200]);
    (0..2).for_each(|_| assert_eq!(gateway.get().content, "proper"));
    assert_eq!(closing.requests(), 2);
    closing.set_behavior(Behavior::named("recovered"));
    until(|| gateway.get().content == "recovered");
    let contents: Vec<_> = (0..4).map(|_| gateway.get().content).collect();
    assert_eq!(contents.iter().filter(|content| *content == "recovered").count(), 2);
}

#[test]
fn only_configured_statuses_eject_a_server() {
    let failing = |status| Backend::start(Behavior::Responds { status, lines: "", name: "failing" });
    for (status, ejected_after) in [(503, 2), (500, 6)] {
        let (failing, proper) = (failing(status), Backend::named("proper"));
        let mut config = with_long_ejection(config([&failing, &proper]));
        config.ejection.statuses = vec!["502-504".parse().unwrap()];
        let gateway = Gateway::start(config);
        (0..12).for_each(|_| drop(gateway.get()));
        assert_eq!(failing.requests(), ejected_after);
    }
}

#[test]
fn closed_idle_connection_does_not_count_as_failure() {
    let mut backend = Backend::named("one");
    let other = Backend::named("other");
    let gateway = Gateway::start(with_long_ejection(config([&backend, &other])));
    for _ in 0..6 {
        until(|| gateway.get().content == "one");
        backend.stop();
        backend.restart();
    }
    until(|| gateway.get().content == "one");
}

/// Regression test: a response head alone counted as a success, so such a server was never ejected.
#[test]
fn server_with_incomplete_responses_is_ejected() {
    let (stalling, proper) = (upstream::stalls_mid_body().listen(), Backend::named("proper"));
    let timeouts = Timeouts { content_idle: STALL_TIMEOUT, ..Timeouts::default() };
    let config = UpstreamConfig {
        exchange: Config { timeouts, ..Config::default() },
        ..UpstreamConfig::new("a", [stalling.address.into(), proper.upstream_address()])
    };
    let ejection = EjectionConfig { failures: 2, ..EjectionConfig::default() };
    let gateway = Gateway::start(with_long_ejection(UpstreamConfig { ejection, ..config }));
    for n in 0..4 {
        let got = gateway.get();
        assert_eq!((got.status, got.content == "proper"), (200, n % 2 == 1), "{got:?}");
    }
    (0..10).for_each(|_| assert_eq!(gateway.get().content, "proper"));
    assert_eq!(stalling.requests(), 2);
}
