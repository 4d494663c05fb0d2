//! Tests of servers behind names that resolve, change their addresses, or fail to resolve.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thruway_client::{Resolve, Resolved, Resolving, ResolvingFor, UpstreamAddr};
use thruway_gateway::{AdminState, ServerConfig, ServerState, UpstreamConfig};

use crate::backend::Backend;
use crate::gateway::{Gateway, until};

/// A resolver that knows one name, set by the test.
#[derive(Default, Debug)]
struct Names {
    /// `None` makes lookups fail.
    addresses: Mutex<Option<Vec<UpstreamAddr>>>,
    lookups: Mutex<usize>,
}

impl Names {
    fn with<'b>(backends: impl IntoIterator<Item = &'b Backend>) -> Arc<Self> {
        let names = Arc::new(Self::default());
        names.set(backends);
        names
    }

    fn set<'b>(&self, backends: impl IntoIterator<Item = &'b Backend>) {
        let addresses = backends.into_iter().map(Backend::upstream_address).collect();
        *self.addresses.lock().unwrap() = Some(addresses);
    }

    fn fail(&self) {
        *self.addresses.lock().unwrap() = None;
    }

    /// Waits until the gateway has applied the result of one more lookup.
    fn until_looked_up(&self) {
        let before = *self.lookups.lock().unwrap();
        until(|| *self.lookups.lock().unwrap() > before + 1);
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        assert_eq!((host, port), ("backend.example", 80));
        *self.lookups.lock().unwrap() += 1;
        let addresses = self.addresses.lock().unwrap().clone();
        Box::pin(async move { addresses.ok_or_else(|| io::ErrorKind::NotFound.into()) })
    }
}

fn config() -> UpstreamConfig {
    UpstreamConfig {
        servers: vec![ServerConfig::new(
            "backend.example:80".parse::<thruway_gateway::ServerAddr>().unwrap(),
        )],
        resolve_interval: Duration::from_millis(10),
        ..UpstreamConfig::new("a", [])
    }
}

/// Returns the servers of the next requests, in alphabetical order.
fn responding_servers(gateway: &Gateway) -> Vec<String> {
    let mut servers: Vec<_> = (0..8).map(|_| gateway.get().content).collect();
    servers.sort();
    servers.dedup();
    servers
}

#[test]
fn all_addresses_of_a_name_get_requests_from_the_start() {
    let backends = ["one", "two", "three"].map(Backend::named);
    let gateway = Gateway::start_with(config(), Names::with(&backends));
    assert_eq!(responding_servers(&gateway), ["one", "three", "two"]);
}

#[test]
fn dns_change_replaces_servers() {
    let [one, two, three] = ["one", "two", "three"].map(Backend::named);
    let names = Names::with([&one, &two]);
    let gateway = Gateway::start_with(config(), names.clone());
    assert_eq!(responding_servers(&gateway), ["one", "two"]);
    names.set([&two, &three]);
    until(|| responding_servers(&gateway) == ["three", "two"]);
}

/// Regression test: a server that left DNS for a moment returned as enabled and without requests in flight.
#[test]
fn server_that_returns_to_dns_keeps_its_state() {
    let [one, two] = ["one", "two"].map(Backend::named);
    let names = Names::with([&one, &two]);
    let gateway = Gateway::start_with(config(), names.clone());
    gateway.upstream.set_admin_state(&one.upstream_address(), AdminState::Disabled);
    names.set([&two]);
    until(|| gateway.upstream.server_statuses().len() == 1);
    names.set([&one, &two]);
    until(|| gateway.upstream.server_statuses().len() == 2);
    assert_eq!(gateway.upstream.server_statuses()[0].state, ServerState::Disabled);
    assert_eq!(responding_servers(&gateway), ["two"]);
}

/// Resolves the same names, with a time to live of zero.
#[derive(Debug)]
struct ZeroTtl(Arc<Names>);

impl Resolve for ZeroTtl {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        self.0.resolve(host, port)
    }

    fn resolve_for<'a>(&'a self, host: &'a str, port: u16) -> ResolvingFor<'a> {
        let addresses = self.resolve(host, port);
        Box::pin(async move { Ok(Resolved { addresses: addresses.await?, holds: Some(Duration::ZERO) }) })
    }
}

#[test]
fn expired_dns_ttl_overrides_resolve_interval() {
    let [one, two] = ["one", "two"].map(Backend::named);
    let names = Names::with([&one]);
    let config = UpstreamConfig { resolve_interval: Duration::from_hours(1), ..config() };
    let gateway = Gateway::start_with(config, Arc::new(ZeroTtl(names.clone())));
    names.set([&two]);
    until(|| responding_servers(&gateway) == ["two"]);
}

#[test]
fn failed_or_empty_lookup_keeps_the_servers() {
    let (one, two) = (Backend::named("one"), Backend::named("two"));
    let names = Names::with([&one]);
    let gateway = Gateway::start_with(config(), names.clone());
    names.fail();
    names.until_looked_up();
    assert_eq!(responding_servers(&gateway), ["one"]);
    names.set([]);
    names.until_looked_up();
    assert_eq!(responding_servers(&gateway), ["one"]);
    names.set([&two]);
    until(|| responding_servers(&gateway) == ["two"]);
}

#[test]
fn name_that_fails_at_startup_is_resolved_later() {
    let one = Backend::named("one");
    let names = Arc::new(Names::default());
    let gateway = Gateway::start_with(config(), names.clone());
    let got = gateway.get();
    assert_eq!(
        (got.status, got.field("proxy-status")),
        (503, Some("thruway; error=destination_unavailable"))
    );
    names.set([&one]);
    until(|| gateway.get().content == "one");
}

#[test]
fn server_that_stays_in_dns_keeps_its_ejection() {
    let [one, two, three] = ["one", "two", "three"].map(Backend::named);
    let names = Names::with([&one, &two]);
    let mut config = config();
    config.ejection.failures = 1;
    config.ejection.time = Duration::from_hours(1);
    config.ejection.time_max = Duration::from_hours(1);
    let gateway = Gateway::start_with(config, names.clone());
    one.set_behavior(crate::backend::Behavior::Closes);
    until(|| gateway.ask("POST", "Content-Length: 0\r\n").status == 502);
    one.set_behavior(crate::backend::Behavior::named("one"));
    names.set([&three, &one]);
    until(|| responding_servers(&gateway) == ["three"]);
    assert_eq!(responding_servers(&gateway), ["three"], "server one is still ejected");
}

#[test]
fn system_resolver_is_the_default() {
    let one = Backend::named("one");
    let localhost =
        format!("localhost:{}", one.address.port()).parse::<thruway_gateway::ServerAddr>().unwrap();
    let servers = vec![ServerConfig::new(localhost)];
    let gateway = Gateway::start(UpstreamConfig { servers, ..UpstreamConfig::new("a", []) });
    assert_eq!(gateway.get().content, "one");
}
