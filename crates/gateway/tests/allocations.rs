//! Finding a route, counting its requests and checking addresses in policies allocates no memory.

use std::sync::Arc;
use std::time::Duration;

use thruway_gateway::{
    AddressesConfig, Expected, ExpectedValue, Guarded, HostMatch, PathMatch, PathPattern, Policy,
    PolicyConfig, RateLimitConfig, RouteMatch, RouteMeter, Routes, ServerAttributes,
};
use thruway_http1::{HeadIndex, Limits, ServerConnection};
use thruway_server::{Handler, IntoHandler, Networks, StatusCode, Version};
use thruway_testkit::heap::{CountingAllocator, allocations};
use thruway_testkit::test_server::TestServer;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn route(host: HostMatch, path: PathMatch) -> (RouteMatch, Arc<dyn Handler>) {
    (RouteMatch { hosts: vec![host], ..RouteMatch::at(path) }, (|| "").into_handler())
}

fn routes() -> Routes {
    let expected = |name: &str, value: &str| Expected {
        name: name.to_owned(),
        value: ExpectedValue::Text(value.to_owned()),
    };
    let exact = |path: &str| PathMatch::Exact(path.to_owned());
    let prefix = |path: &str| PathMatch::Prefix(path.to_owned());
    let pattern = PathPattern::parse("/users/{id}").unwrap();
    let mut conditional = route(HostMatch::Any, PathMatch::Pattern(pattern));
    conditional.0.conditions.methods = vec!["GET".to_owned()];
    conditional.0.conditions.headers = vec![expected("x-canary", "yes")];
    conditional.0.conditions.query = vec![expected("name", "a b")];
    Routes::new(vec![
        route(HostMatch::Any, prefix("/")),
        conditional,
        route(HostMatch::parse("*.Example.com").unwrap(), exact("/exact")),
        route(HostMatch::parse("www.example.com").unwrap(), prefix("/static")),
    ])
    .unwrap()
}

#[test]
fn finding_a_route_allocates_no_memory() {
    let routes = routes();
    for (target, host, route) in [
        ("/users/5?name=a%20b", "any", 1),
        ("/users/5?name=b", "any", 0),
        ("/exact", "API.example.com:8080", 2),
        ("/static/a/b", "www.example.com", 3),
        ("/other", "www.example.com", 0),
    ] {
        let bytes = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nX-Canary: yes\r\n\r\n");
        let mut index = HeadIndex::with_capacity(4);
        let mut connection = ServerConnection::new(Limits::default());
        assert!(connection.handle_input(bytes.as_bytes(), &mut index).unwrap().0.is_some());
        let head = index.request_head(bytes.as_bytes());
        let before = allocations();
        let found = routes.find(&head);
        assert_eq!(allocations() - before, 0, "{target}");
        assert_eq!(found, Some(route), "{target}");
    }
    let before = allocations();
    drop(String::from("counted"));
    assert_eq!(allocations() - before, 1, "the allocator counts allocations");
}

#[test]
fn counting_a_request_allocates_no_memory() {
    let meter = RouteMeter::new(2);
    let attributes =
        ServerAttributes { method: "GET", is_https: false, version: Version::Http11, status: StatusCode::OK };
    meter.record(0, attributes, Duration::from_millis(3));
    let before = allocations();
    meter.record(0, attributes, Duration::from_millis(3));
    assert_eq!(allocations() - before, 0);
    assert_eq!(meter.durations()[0].count(), 2);
}

/// Number of allocations for a hundred requests, after a warm-up.
fn allocations_with(handler: Arc<dyn Handler>) -> u64 {
    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let scene = TestServer::new(handler);
    let mut client = scene.connect();
    assert!(client.send(GET).received().starts_with("HTTP/1.1 200 "));
    let before = allocations();
    for _ in 0..100 {
        client.send(GET);
        drop(client.received_bytes());
    }
    allocations() - before
}

#[test]
fn address_rate_limit_and_body_size_policies_allocate_no_memory() {
    let networks = |text: &str| Networks::from_iter([text.parse().unwrap()]);
    let addresses = AddressesConfig { allow: Some(networks("192.0.2.0/24")), deny: networks("10.0.0.0/8") };
    let policies = [
        PolicyConfig::Addresses(addresses),
        PolicyConfig::RateLimit(RateLimitConfig::per_second(1_000_000)),
        PolicyConfig::ContentBytesMax(0),
    ];
    let plain = || (|| "hello").into_handler();
    let guarded = policies.into_iter().fold(plain(), |handler, config| {
        Guarded::new(Arc::new(Policy::new("a", config)), "route", handler).into_handler()
    });
    assert_eq!(allocations_with(guarded), allocations_with(plain()));
}
