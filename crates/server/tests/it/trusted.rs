//! Client address, scheme and host as reported by trusted proxies and by untrusted clients.

use std::cell::RefCell;
use std::rc::Rc;

use thruway_server::{Config, Network, ProxyFields, Record, Request, TrustedProxies};
use thruway_testkit::test_server::TestServer;

fn proxies(networks: &[&str], fields: ProxyFields) -> TrustedProxies {
    TrustedProxies::new(networks.iter().map(|network| network.parse::<Network>().unwrap()).collect(), fields)
}

/// Sends a request with these field lines from [`PEER`]. Returns its client address, scheme and host.
fn seen_with(proxies: TrustedProxies, lines: &str) -> String {
    let config = Config { trusted_proxies: proxies, ..Config::default() };
    let recorded = Rc::new(RefCell::new(None));
    let record = recorded.clone();
    let take = Box::new(move |of: &Record<'_>| *record.borrow_mut() = of.client.ip());
    let answer = |request: &Request<'_>| {
        let ip = request.client().ip().unwrap();
        format!("{ip} {} {}", request.scheme(), request.host())
    };
    let scene = TestServer::with(answer, config, Some(take));
    let mut client = scene.connect();
    client.send(format!("GET / HTTP/1.1\r\nHost: own.example\r\n{lines}\r\n"));
    let received = client.received();
    let seen = received.split("\r\n\r\n").nth(1).unwrap_or_else(|| panic!("{received}"));
    let logged = recorded.borrow().unwrap();
    assert_eq!(seen.split(' ').next().unwrap(), logged.to_string(), "the access log has the same address");
    seen.to_owned()
}

fn seen_with_x_forwarded(lines: &str) -> String {
    seen_with(proxies(&[PEER, "10.0.0.0/8", "2001:db8::/32"], ProxyFields::XForwarded), lines)
}

fn seen_with_forwarded(lines: &str) -> String {
    seen_with(proxies(&[PEER, "10.0.0.0/8", "2001:db8::/32"], ProxyFields::Forwarded), lines)
}

#[test]
fn client_is_rightmost_untrusted_address() {
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
        let seen = seen_with_x_forwarded(&format!("X-Forwarded-For: {value}\r\n"));
        assert_eq!(seen, format!("{expected} http own.example"), "{value}");
    }
    let lines = "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 198.51.100.7\r\nx-forwarded-for: 10.1.2.3\r\n";
    assert!(seen_with_x_forwarded(lines).starts_with("198.51.100.7 "));
}

/// The search for the client stops at an invalid entry and ignores all entries to the left of it.
#[test]
fn invalid_entry_makes_last_trusted_proxy_the_client() {
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
        let seen = seen_with_x_forwarded(&format!("X-Forwarded-For: {value}\r\n"));
        assert_eq!(seen, format!("{PEER} http own.example"), "{value}");
    }
    let behind = seen_with_x_forwarded("X-Forwarded-For: 6.6.6.6, unknown, 10.1.2.3\r\n");
    assert!(behind.starts_with("10.1.2.3 "), "{behind}");
}

#[test]
fn valid_scheme_and_host_from_proxy_are_used() {
    let seen = |lines: &str| seen_with_x_forwarded(&format!("X-Forwarded-For: 6.6.6.6\r\n{lines}"));
    assert_eq!(
        seen("X-Forwarded-Proto: https\r\nX-Forwarded-Host: a.example:81\r\n"),
        "6.6.6.6 https a.example:81"
    );
    assert_eq!(seen("X-Forwarded-Proto: http, HTTPS\r\n"), "6.6.6.6 https own.example");
    assert_eq!(seen("X-Forwarded-Proto: gopher\r\nX-Forwarded-Host: a/b\r\n"), "6.6.6.6 http own.example");
    assert_eq!(seen("X-Forwarded-Host: \r\n"), "6.6.6.6 http own.example");
}

#[test]
fn only_configured_forwarding_headers_with_exact_names_are_read() {
    let both = "X-Forwarded-For: 1.1.1.1\r\nForwarded: for=2.2.2.2;proto=https\r\n";
    assert_eq!(seen_with_x_forwarded(both), "1.1.1.1 http own.example");
    assert_eq!(seen_with_forwarded(both), "2.2.2.2 https own.example");
    let underscores = "X_Forwarded_For: 1.1.1.1\r\nX-Forwarded_For: 1.1.1.1\r\nX_Forwarded_Proto: https\r\n";
    assert_eq!(seen_with_x_forwarded(underscores), format!("{PEER} http own.example"));
}

#[test]
fn forwarded_header_gives_client_scheme_and_host() {
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
        assert_eq!(seen_with_forwarded(&format!("Forwarded: {value}\r\n")), expected, "{value}");
    }
}

/// If the server read from the left, the quotation mark would swallow the entry that the proxy has added. The
/// server would then take the proxy for the client.
#[test]
fn quotation_mark_from_client_cannot_hide_proxy_entry() {
    for spoofed in ["for=\"10.0.0.1", "\"", "for=\"\\", "for=10.0.0.1;x=\"a\\\""] {
        let seen = seen_with_forwarded(&format!("Forwarded: {spoofed}, for=198.51.100.7\r\n"));
        assert!(seen.starts_with("198.51.100.7 "), "{spoofed}: {seen}");
        let seen = seen_with_x_forwarded(&format!("X-Forwarded-For: {spoofed}, 198.51.100.7\r\n"));
        assert!(seen.starts_with("198.51.100.7 "), "{spoofed}: {seen}");
    }
}

#[test]
fn forwarding_headers_from_untrusted_peer_are_ignored() {
    let lines = "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: a\r\n";
    for networks in [&[][..], &["10.0.0.0/8", "unix"]] {
        let seen = seen_with(proxies(networks, ProxyFields::XForwarded), lines);
        assert_eq!(seen, format!("{PEER} http own.example"));
    }
}

#[test]
fn forwarding_list_is_read_up_to_a_limit() {
    let entries = vec!["10.1.1.1"; 3_000].join(",");
    let seen = seen_with_x_forwarded(&format!("X-Forwarded-For: 6.6.6.6,{entries}\r\n"));
    assert!(seen.starts_with("10.1.1.1 "), "{seen}");
}

/// Address of the test's client.
const PEER: &str = "192.0.2.1";
