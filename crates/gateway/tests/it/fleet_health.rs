//! Gateways that exchange the health of their servers.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use thruway_client::SystemResolver;
use thruway_gateway::{
    CheckConfig, CheckKind, EjectionConfig, ForwardConfig, HealthEvent, HealthSharing, ServerState, Upstream,
    UpstreamConfig,
};
use thruway_net::Clock;

use crate::backend::{Backend, Behavior};
use crate::gateway::{Gateway, until};

/// Starts two gateways that exchange health news.
fn fleet(configs: [UpstreamConfig; 2]) -> [Gateway; 2] {
    let upstreams = configs.map(|config| {
        let (sharing, news) = HealthSharing::new();
        sharing.enable(true);
        (Arc::new(Upstream::new(config).with_health_sharing(sharing)), news)
    });
    let [(one, mut from_one), (two, mut from_two)] = upstreams;
    let (to_one, to_two) = (Arc::downgrade(&one), Arc::downgrade(&two));
    thread::spawn(move || {
        while let (Some(news), Some(two)) = (from_one.blocking_recv(), to_two.upgrade()) {
            two.apply_health_news(&news.server, news.event);
        }
    });
    thread::spawn(move || {
        while let (Some(news), Some(one)) = (from_two.blocking_recv(), to_one.upgrade()) {
            one.apply_health_news(&news.server, news.event);
        }
    });
    [one, two].map(|upstream| {
        upstream.start_with(Arc::new(SystemResolver)).wait();
        Gateway::sharing(upstream, ForwardConfig::default())
    })
}

fn config<'b>(backends: impl IntoIterator<Item = &'b Backend>) -> UpstreamConfig {
    UpstreamConfig::new("a", backends.into_iter().map(Backend::upstream_address))
}

fn checked<'b>(interval: Duration, backends: impl IntoIterator<Item = &'b Backend>) -> UpstreamConfig {
    let check = CheckConfig { interval, ..CheckConfig::new(CheckKind::http("/health")) };
    UpstreamConfig { check: Some(check), ..config(backends) }
}

fn states(gateway: &Gateway) -> Vec<ServerState> {
    gateway.upstream.server_statuses().iter().map(|server| server.state).collect()
}

#[test]
fn gateways_check_a_server_as_often_as_one_gateway() {
    let backend = Backend::named("one");
    let interval = Duration::from_millis(300);
    let clock = Clock::system();
    let began = clock.now_exact();
    let _fleet = fleet([checked(interval, [&backend]), checked(interval, [&backend])]);
    // Without news, the gateways would make 12 checks within six intervals.
    until(|| backend.requests() >= 12);
    let elapsed = clock.now_exact().saturating_sub(began);
    assert!(elapsed > interval * 8, "{elapsed:?}");
}

#[test]
fn successful_checks_count_in_all_gateways() {
    let (one, two) = (Backend::named("one"), Backend::named("two"));
    two.set_behavior(Behavior::Responds { status: 503, lines: "", name: "two" });
    let rarely = checked(Duration::from_hours(1), [&one, &two]);
    let [often, rarely] = fleet([checked(Duration::from_millis(10), [&one, &two]), rarely]);
    // The only own check of this gateway has failed. All later results are from the other gateway.
    until(|| states(&rarely) == [ServerState::Up, ServerState::CheckFailing]);
    two.set_behavior(Behavior::named("two"));
    until(|| states(&rarely) == [ServerState::Up; 2]);
    drop(often);
}

#[test]
fn failed_checks_of_one_gateway_take_no_server_away_from_the_others() {
    let backend = Backend::named("one");
    let (often, rarely) = (Duration::from_millis(1), Duration::from_millis(100));
    let content = Some("this text is never in the response".to_owned());
    let kind = CheckKind::Http { path: "/".into(), host: None, statuses: vec![CheckKind::STATUSES], content };
    let failing = CheckConfig { interval: often, ..CheckConfig::new(kind) };
    let failing = UpstreamConfig { check: Some(failing), ..config([&backend]) };
    let [healthy, failing] = fleet([checked(rarely, [&backend]), failing]);
    until(|| states(&failing) == [ServerState::CheckFailing]);
    let before = backend.requests();
    until(|| backend.requests() > before + 100);
    assert_eq!(states(&healthy), [ServerState::Up]);
}

#[test]
fn server_that_one_gateway_ejects_needs_one_failure_in_the_others() {
    let (one, mut two) = (Backend::named("one"), Backend::absent(Behavior::named("two")));
    let time = Duration::from_millis(200);
    let ejection = EjectionConfig { failures: 1000, time, ..EjectionConfig::default() };
    let eager = EjectionConfig { failures: 2, ..ejection.clone() };
    let config = config([&one, &two]);
    let [first, second] =
        fleet([eager, ejection].map(|ejection| UpstreamConfig { ejection, ..config.clone() }));
    until(|| {
        assert_eq!((first.get().status, second.get().status), (200, 200));
        states(&second) == [ServerState::Up, ServerState::Ejected]
    });
    two.restart();
    until(|| {
        assert_eq!(first.get().status, 200);
        states(&second) == [ServerState::Up; 2]
    });
}

#[test]
fn news_cannot_eject_servers_or_insert_lines_into_logs() {
    let (one, two) = (Backend::named("one"), Backend::named("two"));
    let gateway = Gateway::start(config([&one, &two]));
    for address in ["192.0.2.1:80".to_owned(), one.address.to_string(), two.address.to_string()] {
        let cause = format!("a\nb{}", "x".repeat(1000));
        gateway.upstream.apply_health_news(&address, HealthEvent::Ejected { cause });
    }
    (0..4).for_each(|_| assert_eq!(gateway.get().status, 200));
    assert_eq!(states(&gateway), [ServerState::Up; 2]);
}
