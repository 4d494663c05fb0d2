//! Client address, scheme and host as reported by trusted proxies and by untrusted clients.

use std::cell::RefCell;
use std::rc::Rc;

use thruway_server::{Config, Network, ProxyFields, Record, Request, TrustedProxies};
use thruway_testkit::scene::Scene;

fn proxies(networks: &[&str], fields: ProxyFields) -> TrustedProxies {
    TrustedProxies::new(networks.iter().map(|network| network.parse::<Network>().unwrap()).collect(), fields)
}

/// Sends a request with these field lines from [`PEER`]. Returns its client address, scheme and host.
fn asked(proxies: TrustedProxies, lines: &str) -> String {
    let config = Config { trusted_proxies: proxies, ..Config::default() };
    let recorded = Rc::new(RefCell::new(None));
    let record = recorded.clone();
    let take = Box::new(move |of: &Record<'_>| *record.borrow_mut() = of.client.ip());
    let answer = |request: &Request<'_>| {
        let ip = request.client().ip().unwrap();
        format!("{ip} {} {}", request.scheme(), request.host())
    };
    let scene = Scene::with(answer, config, Some(take));
    let mut client = scene.connect();
    client.send(format!("GET / HTTP/1.1\r\nHost: own.example\r\n{lines}\r\n"));
    let received = client.received();
    let said = received.split("\r\n\r\n").nth(1).unwrap_or_else(|| panic!("{received}"));
    let logged = recorded.borrow().unwrap();
    assert_eq!(said.split(' ').next().unwrap(), logged.to_string(), "the log says the same");
    said.to_owned()
}

fn asked_by_x_forwarded(lines: &str) -> String {
    asked(proxies(&[PEER, "10.0.0.0/8", "2001:db8::/32"], ProxyFields::XForwarded), lines)
}

fn asked_by_forwarded(lines: &str) -> String {
    asked(proxies(&[PEER, "10.0.0.0/8", "2001:db8::/32"], ProxyFields::Forwarded), lines)
}

#[test]
fn the_client_is_the_rightmost_address_that_is_not_trusted() {
    for (value, expected) in [
        ("198.51.100.7", "198.51.100.7"),
        ("198.51.100.7, 10.1.2.3", "198.51.100.7"),
        ("198.51.100.7,10.1.2.3 , 10.9.9.9,", "198.51.100.7"),
        ("6.6.6.6, 198.51.100.7, 10.1.2.3", "198.51.100.7"),
        ("10.7.7.7, 10.1.2.3", "10.7.7.7"),
        ("198.51.100.7:4711, 10.1.2.3:80", "198.51.100.7"),
        ("[2001:db9::1]:80, [2001:db8::5]", "2001:db9::1"),
        ("2001:db9::1, 2001:db8::5", "2001:db9::1"),
        ("198.51.100.7, ::ffff:10.1.2.3", "198.51.100.7"),
    ] {
        let said = asked_by_x_forwarded(&format!("X-Forwarded-For: {value}\r\n"));
        assert_eq!(said, format!("{expected} http own.example"), "{value}");
    }
    let lines = "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 198.51.100.7\r\nx-forwarded-for: 10.1.2.3\r\n";
    assert!(asked_by_x_forwarded(lines).starts_with("198.51.100.7 "));
}

/// The search for the client stops at an invalid entry and ignores all entries to the left of it.
#[test]
fn what_says_nothing_is_said_by_the_last_proxy() {
    for value in [
        "",
        ",",
        "unknown",
        "_hidden",
        "6.6.6.6, unknown",
        "6.6.6.6, _hidden:80",
        "6.6.6.6, 1.2.3",
        "6.6.6.6, [::1",
        "6.6.6.6, [1.2.3.4]:80",
        "6.6.6.6, 1.2.3.4:99999",
        "6.6.6.6, 1.2.3.4:x",
        "6.6.6.6, [::1]x",
        "6.6.6.6, unix:",
        "6.6.6.6, fe80::1%eth0",
        "6.6.6.6, \"1.2.3.4\"",
        "6.6.6.6, 1.2.3.4 5",
        "6.6.6.6, \u{e4}",
        "6.6.6.6; 1.2.3.4",
    ] {
        let said = asked_by_x_forwarded(&format!("X-Forwarded-For: {value}\r\n"));
        assert_eq!(said, format!("{PEER} http own.example"), "{value}");
    }
    let behind = asked_by_x_forwarded("X-Forwarded-For: 6.6.6.6, unknown, 10.1.2.3\r\n");
    assert!(behind.starts_with("10.1.2.3 "), "{behind}");
}

#[test]
fn scheme_and_host_are_those_of_the_proxy_if_they_are_any() {
    let said = |lines: &str| asked_by_x_forwarded(&format!("X-Forwarded-For: 6.6.6.6\r\n{lines}"));
    assert_eq!(
        said("X-Forwarded-Proto: https\r\nX-Forwarded-Host: a.example:81\r\n"),
        "6.6.6.6 https a.example:81"
    );
    assert_eq!(said("X-Forwarded-Proto: http, HTTPS\r\n"), "6.6.6.6 https own.example");
    assert_eq!(said("X-Forwarded-Proto: gopher\r\nX-Forwarded-Host: a/b\r\n"), "6.6.6.6 http own.example");
    assert_eq!(said("X-Forwarded-Host: \r\n"), "6.6.6.6 http own.example");
}

#[test]
fn only_the_fields_that_proxies_write_are_read_and_only_as_they_are_spelled() {
    let both = "X-Forwarded-For: 1.1.1.1\r\nForwarded: for=2.2.2.2;proto=https\r\n";
    assert_eq!(asked_by_x_forwarded(both), "1.1.1.1 http own.example");
    assert_eq!(asked_by_forwarded(both), "2.2.2.2 https own.example");
    let underscores = "X_Forwarded_For: 1.1.1.1\r\nX-Forwarded_For: 1.1.1.1\r\nX_Forwarded_Proto: https\r\n";
    assert_eq!(asked_by_x_forwarded(underscores), format!("{PEER} http own.example"));
}

#[test]
fn forwarded_tells_of_the_hop_that_the_client_made() {
    for (value, expected) in [
        ("for=198.51.100.7", "198.51.100.7 http own.example"),
        ("For=\"198.51.100.7:80\";Proto=HTTPS;host=\"a.example\"", "198.51.100.7 https a.example"),
        (
            "for=6.6.6.6;proto=ws, for=198.51.100.7 ; proto=https, for=10.1.2.3;proto=http",
            "198.51.100.7 https own.example",
        ),
        ("for=\"[2001:db9::1]:_port\";by=\"a;b,c\"", "2001:db9::1 http own.example"),
        ("for=6.6.6.6, for=unknown;proto=https", "192.0.2.1 https own.example"),
        ("for=6.6.6.6, proto=https", "192.0.2.1 https own.example"),
        ("for=6.6.6.6, for=\"\\1.2.3.4\"", "192.0.2.1 http own.example"),
    ] {
        assert_eq!(asked_by_forwarded(&format!("Forwarded: {value}\r\n")), expected, "{value}");
    }
}

/// If the server read from the left, the quotation mark would swallow the entry that the proxy has added. The
/// server would then take the proxy for the client.
#[test]
fn a_quotation_mark_of_a_client_hides_nothing() {
    for spoofed in ["for=\"10.0.0.1", "\"", "for=\"\\", "for=10.0.0.1;x=\"a\\\""] {
        let said = asked_by_forwarded(&format!("Forwarded: {spoofed}, for=198.51.100.7\r\n"));
        assert!(said.starts_with("198.51.100.7 "), "{spoofed}: {said}");
        let said = asked_by_x_forwarded(&format!("X-Forwarded-For: {spoofed}, 198.51.100.7\r\n"));
        assert!(said.starts_with("198.51.100.7 "), "{spoofed}: {said}");
    }
}

#[test]
fn who_is_not_trusted_is_not_listened_to() {
    let lines = "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: a\r\n";
    for networks in [&[][..], &["10.0.0.0/8", "unix"]] {
        let said = asked(proxies(networks, ProxyFields::XForwarded), lines);
        assert_eq!(said, format!("{PEER} http own.example"));
    }
}

#[test]
fn a_list_without_end_is_read_up_to_a_bound() {
    let entries = vec!["10.1.1.1"; 3_000].join(",");
    let said = asked_by_x_forwarded(&format!("X-Forwarded-For: 6.6.6.6,{entries}\r\n"));
    assert!(said.starts_with("10.1.1.1 "), "{said}");
}

/// Address of the test's client.
const PEER: &str = "192.0.2.1";
