//! Tests of cookies that keep a client on one server.

use thruway_gateway::{Sticky, UpstreamConfig};
use thruway_server::{Config, Networks, ProxyFields, TrustedProxies};

use crate::backend::Backend;
use crate::gateway::Gateway;

fn config(backends: &[Backend]) -> UpstreamConfig {
    let sticky = Some(Sticky::new("server"));
    UpstreamConfig { sticky, ..UpstreamConfig::new("a", backends.iter().map(Backend::upstream_address)) }
}

#[test]
fn client_with_sticky_cookie_stays_on_its_server() {
    let backends = ["one", "two", "three"].map(Backend::named);
    let gateway = Gateway::start(config(&backends));
    for _ in 0..3 {
        let first = gateway.get();
        let cookie = first.field("set-cookie").unwrap().split(';').next().unwrap();
        // The whole address, because one token in 300 contains `127` by chance.
        assert!(!cookie.contains("127.0.0.1"), "{cookie}");
        for _ in 0..5 {
            let again = gateway.ask("GET", &format!("Cookie: a=b; {cookie}\r\n"));
            assert_eq!((&again.content, again.field("set-cookie")), (&first.content, None));
        }
    }
}

#[test]
fn client_with_stale_or_invalid_cookie_gets_a_new_cookie() {
    let mut backends = ["one", "two"].map(Backend::named);
    let gateway = Gateway::start(config(&backends));
    let first = gateway.get();
    let cookie = first.field("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let gone = backends.iter_mut().zip(["one", "two"]).find(|(_, name)| *name == first.content);
    gone.unwrap().0.stop();
    let moved = gateway.ask("GET", &format!("Cookie: {cookie}\r\n"));
    assert_eq!(moved.status, 200);
    assert_ne!(moved.content, first.content);
    assert!(moved.field("set-cookie").is_some());
    for invalid in ["server=0000000000000000", "server=one", "server="] {
        let got = gateway.ask("GET", &format!("Cookie: {invalid}\r\n"));
        assert!(got.status == 200 && got.field("set-cookie").is_some());
    }
}

/// Regression test: the cookie never had `Secure`, so browsers also sent it in plain text.
#[test]
fn sticky_cookie_is_secure_for_https_clients() {
    let backends = [Backend::named("one")];
    let networks: Networks = ["127.0.0.1".parse().unwrap()].into_iter().collect();
    let trusted_proxies = TrustedProxies::new(networks, ProxyFields::XForwarded);
    let gateway = Gateway::serving(config(&backends), Config { trusted_proxies, ..Config::default() });
    for (scheme, is_secure) in [("https", true), ("http", false)] {
        let lines = format!("X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: {scheme}\r\n");
        let got = gateway.ask("GET", &lines);
        let cookie = got.field("set-cookie").unwrap();
        assert_eq!(
            cookie.split("; ").any(|attribute| attribute == "Secure"),
            is_secure,
            "{scheme}: {cookie}"
        );
    }
}
