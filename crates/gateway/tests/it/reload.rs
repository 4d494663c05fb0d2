//! Tests of config changes at runtime: the state of remaining servers is kept.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use thruway_client::{Resolve, Resolving, SystemResolver, UpstreamAddr};
use thruway_gateway::{
    AdminState, Balance, CheckConfig, CheckKind, EjectionConfig, QueueConfig, ServerAddr, ServerConfig,
    ServerState, Upstream, UpstreamConfig,
};

use crate::backend::{Backend, Behavior};
use crate::gateway::{Gateway, TEST_TIMEOUT, until};

fn config<'b>(backends: impl IntoIterator<Item = &'b Backend>) -> UpstreamConfig {
    UpstreamConfig::new("a", backends.into_iter().map(Backend::upstream_address))
}

/// Returns another config with the same servers.
fn changed(config: &UpstreamConfig) -> UpstreamConfig {
    UpstreamConfig { balance: Balance::LeastConnections, ..config.clone() }
}

fn states(upstream: &Upstream) -> Vec<ServerState> {
    upstream.server_statuses().iter().map(|server| server.state).collect()
}

/// Replaces the upstream `before` by one with `config`.
fn reload(config: UpstreamConfig, before: &Upstream) -> Arc<Upstream> {
    let after = Arc::new(Upstream::after(config, before));
    after.replace(before);
    after.start_with(Arc::new(SystemResolver)).wait();
    after
}

/// Regression test: after a reload, all servers were considered up until the first check. Requests were sent
/// to servers that were down.
#[test]
fn failed_check_state_survives_reload() {
    let (one, absent) = (Backend::named("one"), Backend::absent(Behavior::named("absent")));
    let interval = Duration::from_millis(10);
    let check = Some(CheckConfig { interval, ..CheckConfig::new(CheckKind::Tcp) });
    let config = UpstreamConfig { check, ..config([&one, &absent]) };
    let gateway = Gateway::start(config.clone());
    until(|| states(&gateway.upstream) == [ServerState::Up, ServerState::CheckFailing]);
    // The new upstream has not been checked yet.
    let after = Upstream::after(changed(&config), &gateway.upstream);
    assert_eq!(states(&after), [ServerState::Up, ServerState::CheckFailing]);
    let after = reload(UpstreamConfig { check: None, ..config }, &after);
    until(|| states(&after) == [ServerState::Up, ServerState::Up]);
}

#[test]
fn ejection_and_admin_state_survive_reload() {
    let (one, absent) = (Backend::named("one"), Backend::absent(Behavior::named("absent")));
    let ejection = EjectionConfig { failures: 1, ..EjectionConfig::default() };
    let config = UpstreamConfig { ejection, ..config([&one, &absent]) };
    let gateway = Gateway::start(config.clone());
    until(|| gateway.get().status == 200 && states(&gateway.upstream)[1] == ServerState::Ejected);
    gateway.upstream.set_admin_state(&one.upstream_address(), AdminState::Draining);
    let after = reload(changed(&config), &gateway.upstream);
    assert_eq!(states(&after), [ServerState::Draining, ServerState::Ejected]);
    assert_eq!(after.server_statuses()[1].failures, [("connection_refused", 1)]);
    let servers = config.servers.into_iter().rev().collect();
    let after = reload(UpstreamConfig { servers, ..UpstreamConfig::new("a", []) }, &after);
    assert_eq!(
        states(&after),
        [ServerState::Ejected, ServerState::Draining],
        "the order of the servers does not matter"
    );
}

#[test]
fn requests_in_flight_are_counted_across_reload() {
    let backend = Backend::start(Behavior::Holds);
    let config = config([&backend]);
    let gateway = Gateway::start(config.clone());
    let pending = gateway.begin("GET", "");
    until(|| backend.requests() == 1);
    let after = reload(changed(&config), &gateway.upstream);
    assert_eq!(after.server_statuses()[0].in_flight, 1);
    assert_eq!(after.server_statuses()[0].connections_opened, 1);
    backend.set_behavior(Behavior::named("one"));
    assert_eq!(pending.end().status, 200);
    until(|| after.server_statuses()[0].in_flight == 0);
}

/// Regression test: such requests kept waiting for the old servers, and blocked the queue.
#[test]
fn waiting_requests_use_servers_added_by_reload() {
    let (busy, other) = (Backend::start(Behavior::Holds), Backend::named("other"));
    let mut config = config([&busy]);
    config.servers[0].requests_max = 1;
    config.queue = QueueConfig { length_max: 1, timeout: TEST_TIMEOUT };
    let gateway = Gateway::start(config.clone());
    let first = gateway.begin("GET", "");
    until(|| busy.requests() == 1);
    let second = gateway.begin("GET", "");
    until(|| gateway.upstream.waiting() == 1);
    config.servers.push(ServerConfig::new(ServerAddr::Address(other.upstream_address())));
    let after = reload(config, &gateway.upstream);
    assert_eq!(second.end().content, "other");
    assert_eq!((after.waiting(), busy.requests()), (0, 1));
    busy.set_behavior(Behavior::named("busy"));
    assert_eq!(first.end().content, "busy");
}

/// A resolver that returns addresses or fails.
#[derive(Debug)]
enum Names {
    Known(UpstreamAddr),
    Fail,
    /// Answers once both names are being resolved concurrently.
    Concurrent(AtomicUsize, [UpstreamAddr; 2]),
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, host: &'a str, _: u16) -> Resolving<'a> {
        Box::pin(async move {
            match self {
                Self::Known(address) => Ok(vec![address.clone()]),
                Self::Fail => Err(io::ErrorKind::NotFound.into()),
                Self::Concurrent(lookups, addresses) => {
                    lookups.fetch_add(1, Ordering::SeqCst);
                    while lookups.load(Ordering::SeqCst) < addresses.len() {
                        tokio::task::yield_now().await;
                    }
                    Ok(vec![addresses[usize::from(host == "two.example")].clone()])
                }
            }
        })
    }
}

fn named(names: &[&str]) -> UpstreamConfig {
    let server = |name: &&str| ServerConfig::new(name.parse::<ServerAddr>().unwrap());
    UpstreamConfig { servers: names.iter().map(server).collect(), ..UpstreamConfig::new("a", []) }
}

/// Regression test: an upstream lost its servers if its name failed to resolve during an unrelated config
/// change.
#[test]
fn unresolvable_name_keeps_its_addresses_after_reload() {
    let backend = Backend::named("one");
    let config = named(&["one.example:80"]);
    let before = Arc::new(Upstream::new(config.clone()));
    before.start_with(Arc::new(Names::Known(backend.upstream_address()))).wait();
    assert_eq!(states(&before), [ServerState::Up]);
    let after = Arc::new(Upstream::after(changed(&config), &before));
    after.replace(&before);
    after.start_with(Arc::new(Names::Fail)).wait();
    assert_eq!(after.server_statuses()[0].address, backend.upstream_address());
    // Another name has no known addresses.
    let other = Upstream::after(named(&["other.example:80"]), &after);
    assert_eq!(states(&other), []);
}

#[test]
fn names_are_resolved_concurrently() {
    let addresses = ["127.0.0.1:1", "127.0.0.1:2"].map(|address| address.parse().unwrap());
    let upstream = Arc::new(Upstream::new(named(&["one.example:80", "two.example:80"])));
    upstream.start_with(Arc::new(Names::Concurrent(AtomicUsize::new(0), addresses))).wait();
    assert_eq!(states(&upstream), [ServerState::Up; 2]);
}
