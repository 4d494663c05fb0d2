//! Tests of gateways behind trusted proxies: they forward and extend the headers of the proxies.

use thruway_gateway::{ForwardConfig, ForwardedFields};
use thruway_server::{Config, Networks, ProxyFields, TrustedProxies};

use super::{Client, Recorded, Recorder};
use crate::gateway::Gateway;

/// Returns the request that the upstream server gets for one with `lines`, from a proxy that sets the headers
/// `trusted_fields`.
fn forwarded_request(trusted_fields: ProxyFields, forwarded: ForwardedFields, lines: &str) -> Recorded {
    let recorder = Recorder::start();
    let networks = ["127.0.0.1", "10.0.0.0/8"].map(|network| network.parse().unwrap());
    let networks = Networks::from_iter(networks);
    let config =
        Config { trusted_proxies: TrustedProxies::new(networks, trusted_fields), ..Config::default() };
    let forward = ForwardConfig { forwarded, ..ForwardConfig::default() };
    let gateway = Gateway::with(recorder.address, forward, config);
    assert_eq!(Client::new(gateway.address).ask("GET / HTTP/1.1", lines).status, 200);
    let request = recorder.take_one();
    for name in ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded"] {
        let is_named = |(of, _): &&(String, String)| of.replace('_', "-").eq_ignore_ascii_case(name);
        assert!(request.lines.iter().filter(is_named).count() <= 1, "{request:?}");
    }
    request
}

#[test]
fn forwarded_headers_of_trusted_proxy_are_extended() {
    let request = forwarded_request(
        ProxyFields::XForwarded,
        ForwardedFields::XForwarded,
        "X-Forwarded-For: 198.51.100.7\r\nX-Forwarded-For: 10.1.1.1\r\nX-Forwarded-Proto: https\r\n\
         X-Forwarded-Host: asked.example\r\nX_Forwarded_For: 9.9.9.9\r\nForwarded: for=9.9.9.9\r\n\
         X-Forwarded-Prefix: /a\r\n",
    );
    assert_eq!(request.field("x-forwarded-prefix"), Some("/a"));
    assert_eq!(request.field("x-forwarded-for"), Some("198.51.100.7, 10.1.1.1, 127.0.0.1"));
    assert_eq!(request.field("x-forwarded-proto"), Some("https"));
    assert_eq!(request.field("x-forwarded-host"), Some("asked.example"));
    assert_eq!((request.field("forwarded"), request.field("host")), (None, Some("a.example")));
}

#[test]
fn untrusted_entries_before_trusted_proxies_are_removed() {
    let lines = "X-Forwarded-For: 6.6.6.6, \"x, 198.51.100.7, 10.1.1.1\r\nX-Forwarded-Proto: ftp\r\n";
    let request = forwarded_request(ProxyFields::XForwarded, ForwardedFields::XForwarded, lines);
    assert_eq!(request.field("x-forwarded-for"), Some("198.51.100.7, 10.1.1.1, 127.0.0.1"));
    assert_eq!(request.field("x-forwarded-proto"), Some("http"));
    assert_eq!(request.field("x-forwarded-host"), Some("a.example"));
    let lines = "Forwarded: for=6.6.6.6;x=\"a, for=198.51.100.7;proto=https, for=\"10.1.1.1:1\"\r\n";
    let request = forwarded_request(ProxyFields::Forwarded, ForwardedFields::Forwarded, lines);
    assert_eq!(
        request.field("forwarded"),
        Some("for=198.51.100.7;proto=https, for=\"10.1.1.1:1\", for=127.0.0.1;proto=http;host=\"a.example\"")
    );
}

#[test]
fn forwarded_and_x_forwarded_headers_are_converted() {
    let lines = "Forwarded: for=\"[2001:db9::1]:5\";proto=https;host=asked.example\r\n";
    let request = forwarded_request(ProxyFields::Forwarded, ForwardedFields::Both, lines);
    assert_eq!(request.field("x-forwarded-for"), Some("2001:db9::1, 127.0.0.1"));
    assert_eq!(request.field("x-forwarded-proto"), Some("https"));
    assert_eq!(request.field("x-forwarded-host"), Some("asked.example"));
    assert!(
        request
            .field("forwarded")
            .unwrap()
            .starts_with("for=\"[2001:db9::1]:5\";proto=https;host=asked.example, ")
    );
    let lines = "X-Forwarded-For: 2001:db9::1\r\nX-Forwarded-Proto: https\r\n";
    let request = forwarded_request(ProxyFields::XForwarded, ForwardedFields::Forwarded, lines);
    assert_eq!(
        request.field("forwarded"),
        Some(
            "for=\"[2001:db9::1]\";proto=https;host=\"a.example\", \
             for=127.0.0.1;proto=http;host=\"a.example\""
        )
    );
}

#[test]
fn trusted_proxy_without_forwarded_headers_is_the_client() {
    let request = forwarded_request(ProxyFields::XForwarded, ForwardedFields::Both, "");
    assert_eq!(request.field("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(request.field("forwarded"), Some("for=127.0.0.1;proto=http;host=\"a.example\""));
}

/// Returns the port in the request to the upstream server, and the port that the client connected to.
fn upstream_port(is_trusted: bool, forwarded_port: bool, lines: &str) -> (Option<String>, u16) {
    let recorder = Recorder::start();
    let networks = is_trusted.then(|| "127.0.0.1".parse().unwrap());
    let trusted_proxies = TrustedProxies::new(Networks::from_iter(networks), ProxyFields::XForwarded);
    let config = Config { trusted_proxies, ..Config::default() };
    let forward = ForwardConfig { forwarded_port, ..ForwardConfig::default() };
    let gateway = Gateway::with(recorder.address, forward, config);
    assert_eq!(Client::new(gateway.address).ask("GET / HTTP/1.1", lines).status, 200);
    let request = recorder.take_one();
    let ports: Vec<_> =
        request.lines.iter().filter(|(name, _)| name.to_lowercase().ends_with("port")).collect();
    assert!(ports.len() <= 1, "{ports:?}");
    (request.field("x-forwarded-port").map(str::to_owned), gateway.address.port())
}

#[test]
fn x_forwarded_port_is_set_if_enabled() {
    let spoofed = "X-Forwarded-Port: 6666\r\nX_Forwarded_Port: 6667\r\n";
    for lines in ["", spoofed] {
        let (sent, port) = upstream_port(false, true, lines);
        assert_eq!(sent, Some(port.to_string()));
        assert_eq!(upstream_port(false, false, lines).0, None, "the gateway removes the client's field");
    }
    let of_proxy = |lines: &str| upstream_port(true, true, lines).0.unwrap();
    assert_eq!(of_proxy("X-Forwarded-Port: 8443\r\n"), "8443");
    assert_eq!(of_proxy("X-Forwarded-Port: no\r\nX-Forwarded-Proto: https\r\n"), "443");
    assert_eq!(of_proxy("X-Forwarded-Host: asked.example:81\r\n"), "81");
    assert_eq!(of_proxy(""), "80");
    let forwarded = upstream_port(true, false, "X-Forwarded-Port: 8443\r\n").0;
    assert_eq!(forwarded.as_deref(), Some("8443"), "the value of the trusted proxy");
}
