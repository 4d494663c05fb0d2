//! Invalid requests get an error status, and the server closes the connection.

use thruway_server::{Config, Network, ProxyFields, TrustedProxies};
use thruway_testkit::test_server::TestServer;

#[test]
fn each_kind_of_invalid_request_has_its_status() {
    let long_target = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(9000));
    let long_field = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(33_000));
    let many_fields = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: 1\r\n".repeat(130));
    for (status, bytes) in [
        ("400", "\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}\x03\x03"),
        ("400", "GET / HTTP/1.1\r\n\r\n"),
        ("400", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
        ("400", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
        ("400", "GET / HTTP/1.1\r\nHost : a\r\n\r\n"),
        ("400", "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n"),
        ("400", "GET / HTTP/1.1\nHost: a\n\n"),
        ("400", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx"),
        (
            "400",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        ("400", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("414", &long_target),
        ("417", "POST / HTTP/1.1\r\nHost: a\r\nExpect: cake\r\nContent-Length: 1\r\n\r\nx"),
        ("431", &long_field),
        ("431", &many_fields),
        ("501", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        ("505", "GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
    ] {
        let scene = TestServer::new(|| "ok");
        let mut client = scene.connect();
        client.send(bytes);
        let answer = client.received();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{bytes:.60?}: {answer}");
        assert!(answer.contains("\r\nConnection: close\r\n") && client.is_finished(), "{bytes:.60?}");
    }
}

#[test]
fn requests_before_an_invalid_one_are_answered() {
    let scene = TestServer::new(|| "ok");
    let mut client = scene.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let answers = client.received();
    let statuses: Vec<&str> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses, ["200", "400"]);
}

#[test]
fn incomplete_head_at_end_of_input_gets_no_response() {
    let scene = TestServer::new(|| "ok");
    let mut client = scene.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n").finish();
    assert!(client.received().is_empty() && client.is_closed());
}

#[test]
fn large_header_section_within_configured_limit_is_accepted() {
    let mut config = Config::default();
    config.limits.header_section_bytes = 512 << 10;
    let scene = TestServer::with_config(|| "ok", config);
    let mut client = scene.connect();
    let value = "v".repeat(300 << 10);
    client.limit_read_size(10_000).send(format!("GET / HTTP/1.1\r\nHost: a\r\nX: {value}\r\n\r\n"));
    assert!(client.received().ends_with("ok"));
}

/// A connection without TLS once accepted requests for `https` and for other schemes. To the client, such a
/// response looks as if it came over TLS (RFC 9110 §7.4).
#[test]
fn scheme_that_connection_does_not_serve_gets_421() {
    let answer_of = |config: Config, target: &str| {
        let scene = TestServer::with_config(|| "ok", config);
        let mut client = scene.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n"));
        client.received()[9..12].to_owned()
    };
    let proxies = || {
        let networks = ["192.0.2.0/24".parse::<Network>().unwrap()].into_iter().collect();
        Config {
            trusted_proxies: TrustedProxies::new(networks, ProxyFields::XForwarded),
            ..Config::default()
        }
    };
    for (target, of_client, of_trusted_proxy) in [
        ("http://a.example/", "200", "200"),
        ("HTTP://a.example/", "200", "200"),
        ("https://a.example/", "421", "200"),
        ("HttpS://a.example/", "421", "200"),
        ("ftp://a.example/", "421", "421"),
        ("coap+tcp://a.example/", "421", "421"),
        ("/", "200", "200"),
    ] {
        assert_eq!(answer_of(Config::default(), target), of_client, "{target}");
        assert_eq!(answer_of(proxies(), target), of_trusted_proxy, "{target} of a trusted proxy");
    }
}
