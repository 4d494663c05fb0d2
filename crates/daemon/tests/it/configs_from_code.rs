//! Mistakes in a config that a program builds are reported before the server starts.

use thruway_client::UpstreamAddr;
use thruway_daemon::{Config, Daemon, Route};
use thruway_gateway::UpstreamConfig;

use crate::client::{answering, everything};

/// Returns the message of the only finding about `config`, which has a hint.
fn message_of(config: Config) -> String {
    let failure = Daemon::from_config(config).unwrap_err();
    let [finding] = failure.findings() else { panic!("{failure}") };
    assert_eq!((finding.file(), finding.line()), (None, None));
    assert!(!finding.hints().is_empty(), "{failure}");
    finding.message()
}

#[test]
fn config_without_listeners_or_routes_is_an_error() {
    assert_eq!(message_of(Config::default()), "the config has no listener");
    let no_route = Config::default().listen("127.0.0.1:0").unwrap();
    assert_eq!(message_of(no_route), "the config has no route");
}

#[test]
fn unknown_upstream_is_an_error() {
    let config = Config::default().listen("127.0.0.1:0").unwrap();
    let config = config.route(Route::forward(everything(), "absent"));
    assert_eq!(message_of(config), "the route `/ and below` names the unknown upstream `absent`");
}

#[test]
fn unknown_policy_is_an_error() {
    let route = Route::handler(everything(), || "").policy("absent").policy("absent");
    let config = Config::default().listen("127.0.0.1:0").unwrap().route(route);
    assert_eq!(message_of(config), "the route `/ and below` names the unknown policy `absent`");
}

#[test]
fn upstream_without_servers_is_an_error() {
    let config = answering("").upstream(UpstreamConfig::new("backend", []));
    assert_eq!(message_of(config), "the upstream `backend` has no server");
}

#[test]
fn duplicate_listener_address_is_an_error() {
    let twice = answering("").listen("127.0.0.1:8080").unwrap().listen("127.0.0.1:8080").unwrap();
    assert_eq!(message_of(twice), "another listener has the address `127.0.0.1:8080`");
    let admin = answering("").listen("127.0.0.1:8080").unwrap().admin("127.0.0.1:8080").unwrap();
    assert_eq!(message_of(admin), "another listener has the address `127.0.0.1:8080`");
}

#[test]
fn admin_address_reachable_by_other_machines_is_an_error() {
    let config = answering("").admin("0.0.0.0:0").unwrap();
    assert_eq!(message_of(config), "other machines can reach the admin address `0.0.0.0:0`");
}

#[test]
fn upstream_that_leads_back_to_its_listener_is_an_error() {
    let server: UpstreamAddr = "127.0.0.1:8080".parse().unwrap();
    let config = Config::default()
        .listen("127.0.0.1:8080")
        .unwrap()
        .upstream(UpstreamConfig::new("itself", [server]))
        .route(Route::forward(everything(), "itself"));
    assert!(message_of(config).contains("sends requests back"));
}

#[test]
fn invalid_address_is_an_error_with_a_hint() {
    let failure = Config::default().listen("localhost").err().unwrap();
    assert!(!failure.findings()[0].hints().is_empty(), "{failure}");
}

#[test]
fn all_mistakes_of_a_config_are_reported_at_once() {
    let config = Config::default().route(Route::forward(everything(), "absent").policy("absent"));
    assert_eq!(Daemon::from_config(config).unwrap_err().findings().len(), 3);
}
