//! Tests of ejection: the errors that clients see, and the time at which servers get requests again.

use std::time::Duration;

use thruway_client::{Config, Timeouts};
use thruway_gateway::{EjectionConfig, UpstreamConfig};
use thruway_testkit::upstream;

use crate::backend::{Backend, Behaviour};
use crate::gateway::{AMPLE, Gateway, until};

fn config<'b>(backends: impl IntoIterator<Item = &'b Backend>) -> UpstreamConfig {
    let ejection =
        EjectionConfig { failures: 2, time: Duration::from_millis(50), ..EjectionConfig::default() };
    UpstreamConfig {
        ejection,
        ..UpstreamConfig::new("a", backends.into_iter().map(Backend::upstream_address))
    }
}

/// Ejects servers for longer than any test takes.
fn for_ever(config: UpstreamConfig) -> UpstreamConfig {
    let time = Duration::from_hours(1);
    let ejection = EjectionConfig { time, time_max: time, ..config.ejection };
    UpstreamConfig { ejection, ..config }
}

#[test]
fn one_of_three_that_comes_and_goes_is_noticed_by_nobody() {
    let (one, two) = (Backend::named("one"), Backend::named("two"));
    let mut flapping = Backend::absent(Behaviour::named("flapping"));
    let gateway = Gateway::start(config([&one, &flapping, &two]));
    for _ in 0..3 {
        (0..10).for_each(|_| assert_eq!(gateway.get().status, 200));
        flapping.end_ejection();
        until(|| gateway.get().content == "flapping");
        flapping.leave();
    }
    (0..10).for_each(|_| assert_eq!(gateway.get().status, 200));
}

#[test]
fn all_that_were_down_are_asked_again_as_soon_as_they_are_back() {
    let mut backends = ["one", "two"].map(|name| Backend::absent(Behaviour::named(name)));
    let gateway = Gateway::start(for_ever(config(&backends)));
    for _ in 0..10 {
        let got = gateway.get();
        assert_eq!((got.status, got.field("proxy-status")), (502, Some("thruway; error=connection_refused")));
    }
    backends.iter_mut().for_each(Backend::end_ejection);
    until(|| gateway.get().status == 200);
    // The server that was ejected still gets no requests.
    (0..10).for_each(|_| assert_eq!(gateway.get().status, 200));
}

#[test]
fn a_server_that_says_nothing_is_ejected_although_it_accepts() {
    let (silent, proper) = (Backend::start(Behaviour::SaysNothing), Backend::named("proper"));
    let timeouts = Timeouts { head: AMPLE, ..Timeouts::default() };
    let exchange = Config { timeouts, ..Config::default() };
    let gateway = Gateway::start(UpstreamConfig { exchange, ..for_ever(config([&silent, &proper])) });
    let got: Vec<_> = (0..4).map(|_| gateway.ask("POST", "Content-Length: 0\r\n")).collect();
    let statuses: Vec<_> = got.iter().map(|got| got.status).collect();
    assert_eq!(statuses, [504, 200, 504, 200]);
    assert_eq!(got[0].field("proxy-status"), Some("thruway; error=http_response_timeout"));
    (0..10).for_each(|_| assert_eq!(gateway.ask("POST", "Content-Length: 0\r\n").status, 200));
    assert_eq!(silent.requests(), 2);
}

#[test]
fn what_may_be_sent_again_goes_elsewhere_when_a_server_says_nothing() {
    let (silent, proper) = (Backend::start(Behaviour::SaysNothing), Backend::named("proper"));
    let timeouts = Timeouts { head: AMPLE, ..Timeouts::default() };
    let exchange = Config { timeouts, ..Config::default() };
    let gateway = Gateway::start(UpstreamConfig { exchange, ..for_ever(config([&silent, &proper])) });
    (0..6).for_each(|_| assert_eq!(gateway.get().content, "proper"));
    assert_eq!(silent.requests(), 2);
}

#[test]
fn a_server_that_was_ejected_is_tried_and_recovers() {
    let (closing, proper) = (Backend::start(Behaviour::Closes), Backend::named("proper"));
    let mut config = config([&closing, &proper]);
    // The server must stay ejected during the requests below.
    config.ejection.time = AMPLE;
    let gateway = Gateway::start(config);
    // A POST may have taken effect, so it is not retried on the next server. An idempotent request is.
    let statuses: Vec<_> = (0..2).map(|_| gateway.ask("POST", "Content-Length: 0\r\n").status).collect();
    assert_eq!(statuses, [502, 200]);
    (0..2).for_each(|_| assert_eq!(gateway.get().content, "proper"));
    assert_eq!(closing.requests(), 2);
    closing.now(Behaviour::named("recovered"));
    until(|| gateway.get().content == "recovered");
    let contents: Vec<_> = (0..4).map(|_| gateway.get().content).collect();
    assert_eq!(contents.iter().filter(|content| *content == "recovered").count(), 2);
}

#[test]
fn a_status_that_counts_as_a_failure_ejects_and_others_do_not() {
    let failing = |status| Backend::start(Behaviour::Answers { status, lines: "", name: "failing" });
    for (status, ejected_after) in [(503, 2), (500, 6)] {
        let (failing, proper) = (failing(status), Backend::named("proper"));
        let mut config = for_ever(config([&failing, &proper]));
        config.ejection.statuses = vec!["502-504".parse().unwrap()];
        let gateway = Gateway::start(config);
        (0..12).for_each(|_| drop(gateway.get()));
        assert_eq!(failing.requests(), ejected_after);
    }
}

#[test]
fn an_idle_connection_that_the_server_closes_says_nothing_against_it() {
    let mut backend = Backend::named("one");
    let other = Backend::named("other");
    let gateway = Gateway::start(for_ever(config([&backend, &other])));
    for _ in 0..6 {
        until(|| gateway.get().content == "one");
        backend.leave();
        backend.end_ejection();
    }
    until(|| gateway.get().content == "one");
}

/// Regression test: a response head alone counted as a success, so such a server was never ejected.
#[test]
fn a_server_that_does_not_finish_its_answers_is_ejected() {
    let (stalling, proper) = (upstream::stalls_in_content().listen(), Backend::named("proper"));
    let timeouts = Timeouts { content_idle: AMPLE, ..Timeouts::default() };
    let config = UpstreamConfig {
        exchange: Config { timeouts, ..Config::default() },
        ..UpstreamConfig::new("a", [stalling.address.into(), proper.upstream_address()])
    };
    let ejection = EjectionConfig { failures: 2, ..EjectionConfig::default() };
    let gateway = Gateway::start(for_ever(UpstreamConfig { ejection, ..config }));
    for n in 0..4 {
        let got = gateway.get();
        assert_eq!((got.status, got.content == "proper"), (200, n % 2 == 1), "{got:?}");
    }
    (0..10).for_each(|_| assert_eq!(gateway.get().content, "proper"));
    assert_eq!(stalling.requests(), 2);
}
