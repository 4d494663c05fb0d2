//! Tests of CONNECT tunnel settings.

use std::time::Duration;

use thruway_gateway::ConnectConfig;

use super::*;

/// Resolves a config with a route that has these keys.
fn route(keys: &str) -> Result<Config, String> {
    let listener = "[[listeners]]\naddress = \"127.0.0.1:1\"\n";
    resolved(&format!("{listener}[[routes]]\n{keys}\n")).map_err(|failure| failure.to_string())
}

#[test]
fn check_shows_settings_of_tunnel_route() {
    let config =
        route("path = \"/\"\nconnect = { hosts = [\"A.example\", \"*.b.example\", \"*\"] }").unwrap();
    assert_eq!(
        config.routes[0].to_string(),
        "/ and below (CONNECT): tunnels to a.example, *.b.example, *, port 443"
    );
    let keys = "path = \"/\"\nconnect = { hosts = [\"*\"], ports = [443, 8443], private = [\"10.0.0.0/8\"], own_listeners = true, idle_timeout = \"1h\" }";
    let config = route(keys).unwrap();
    assert_eq!(
        config.routes[0].to_string(),
        "/ and below (CONNECT): tunnels to *, ports 443, 8443, also to addresses in 10.0.0.0/8, also to listeners of this process"
    );
    let Action::Connect(connect) = &config.routes[0].action else { panic!("the action is not a tunnel") };
    assert_eq!((connect.idle, connect.connect_timeout), (Duration::from_hours(1), Duration::from_secs(5)));
}

#[test]
fn example_config_shows_tunnel_defaults() {
    let config = resolved(EXAMPLE).unwrap();
    let shown = config.routes.iter().find_map(|route| match &route.action {
        Action::Connect(connect) => Some(connect),
        _ => None,
    });
    let shown = shown.unwrap();
    assert_eq!(*shown, ConnectConfig::to(shown.hosts.clone()));
}

#[test]
fn invalid_tunnel_routes_are_errors() {
    for (keys, message) in [
        ("connect = {}", "missing field `hosts`"),
        ("connect = { hosts = [] }", "`hosts` needs at least one host"),
        ("connect = { hosts = [\"a:443\"] }", "a host must not have a port"),
        ("connect = { hosts = [\"a.*\"] }", "`*` must be the whole first label"),
        ("connect = { hosts = [\"*\"], ports = [] }", "`ports` needs at least one port"),
        ("connect = { hosts = [\"*\"], ports = [0] }", "the value must be from 1 to 65535"),
        (
            "connect = { hosts = [\"*\"], private = [\"10.0.0.1/8\"] }",
            "the network of this address is `10.0.0.0/8`",
        ),
        ("connect = { hosts = [\"*\"], networks = [] }", "unknown key `networks`"),
        ("connect.hosts = [\"*\"]\nmethods = [\"GET\"]", "only CONNECT requests open tunnels"),
        ("connect.hosts = [\"*\"]\nquery = { a = true }", "CONNECT requests have no query"),
        ("connect.hosts = [\"*\"]\ndemo = true", "a route needs exactly one of"),
        (
            "connect.hosts = [\"*\"]\nrewrite.request.remove = [\"A\"]",
            "this key requires `split` or `upstream`",
        ),
        ("methods = [\"CONNECT\"]\ndemo = true", "this route cannot handle CONNECT"),
    ] {
        let failure = route(&format!("path = \"/\"\n{keys}")).err().unwrap_or_else(|| panic!("{keys}"));
        assert!(failure.contains(message), "{keys}\n{failure}");
    }
    for path in ["path = \"/a\"", "path_exact = \"/\"", "path_pattern = \"/{a}\""] {
        let failure = route(&format!("{path}\nconnect.hosts = [\"*\"]")).err().unwrap();
        assert!(failure.contains("CONNECT requests have no path"), "{failure}");
    }
}
