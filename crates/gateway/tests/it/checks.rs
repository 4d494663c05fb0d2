//! Tests of health checks.

use std::sync::Arc;
use std::time::Duration;

use thruway_gateway::{CheckConfig, CheckKind, Upstream, UpstreamConfig};

use crate::backend::{Backend, Behavior};
use crate::gateway::{Gateway, STALL_TIMEOUT, until};

fn config<'b>(kind: CheckKind, backends: impl IntoIterator<Item = &'b Backend>) -> UpstreamConfig {
    let interval = Duration::from_millis(10);
    let check = Some(CheckConfig { interval, ..CheckConfig::new(kind) });
    let addresses = backends.into_iter().map(Backend::upstream_address);
    UpstreamConfig { check, ..UpstreamConfig::new("a", addresses) }
}

/// Waits until only `server` answers, several times in a row.
fn until_only(gateway: &Gateway, server: &str) {
    until(|| (0..8).all(|_| gateway.get().content == server));
}

/// Waits until `server` answers a request.
fn until_also(gateway: &Gateway, server: &str) {
    until(|| gateway.get().content == server);
}

#[test]
fn server_with_wrong_check_status_gets_no_requests_until_it_recovers() {
    let (one, two) = (Backend::named("one"), Backend::named("two"));
    let gateway = Gateway::start(config(CheckKind::http("/health"), [&one, &two]));
    until_also(&gateway, "two");
    two.set_behavior(Behavior::Responds { status: 503, lines: "", name: "two" });
    until_only(&gateway, "one");
    two.set_behavior(Behavior::named("two"));
    until_also(&gateway, "two");
}

#[test]
fn server_without_expected_check_text_gets_no_requests() {
    let (one, two) = (Backend::named("ready one"), Backend::named("ready two"));
    let mut kind = CheckKind::http("/");
    if let CheckKind::Http { content, .. } = &mut kind {
        *content = Some("ready".to_owned());
    }
    let gateway = Gateway::start(config(kind, [&one, &two]));
    two.set_behavior(Behavior::named("starting"));
    until_only(&gateway, "ready one");
    two.set_behavior(Behavior::named("ready two"));
    until_also(&gateway, "ready two");
}

#[test]
fn server_that_refuses_connections_gets_no_requests() {
    let one = Backend::named("one");
    let mut absent = Backend::absent(Behavior::named("absent"));
    let mut config = config(CheckKind::Tcp, [&one, &absent]);
    // Without retries, each request to an absent server fails.
    config.retries_max = 0;
    config.ejection.failures = 0;
    let gateway = Gateway::start(config);
    until_only(&gateway, "one");
    absent.restart();
    until_also(&gateway, "absent");
}

#[test]
fn silent_server_fails_checks_by_timeout() {
    let (one, silent) = (Backend::named("one"), Backend::start(Behavior::NeverResponds));
    let mut config = config(CheckKind::http("/"), [&one, &silent]);
    config.check.as_mut().unwrap().timeout = STALL_TIMEOUT;
    config.exchange.timeouts.head = STALL_TIMEOUT;
    let gateway = Gateway::start(config);
    until_only(&gateway, "one");
    let requests = silent.requests();
    (0..8).for_each(|_| assert_eq!(gateway.get().status, 200));
    // Checks continue, but no client has to wait for them.
    until(|| silent.requests() > requests);
}

#[test]
fn all_servers_get_requests_if_all_fail_their_checks() {
    let down = || Backend::start(Behavior::Responds { status: 404, lines: "", name: "down" });
    let (one, two) = (down(), down());
    let gateway = Gateway::start(config(CheckKind::http("/"), [&one, &two]));
    until(|| one.requests() > 5 && two.requests() > 5);
    (0..8).for_each(|_| assert_eq!(gateway.get().status, 404));
}

#[test]
fn checks_do_not_keep_a_dropped_upstream_alive() {
    let one = Backend::named("one");
    let upstream = Arc::new(Upstream::new(config(CheckKind::http("/"), [&one])));
    upstream.start().wait();
    until(|| one.requests() > 2);
    let weak = Arc::downgrade(&upstream);
    drop(upstream);
    until(|| weak.strong_count() == 0);
}
