//! Tests of the header fields that a gateway changes, removes or forwards.

use thruway_gateway::{ForwardConfig, ForwardedFields, HostRewrite};

use super::{Client, Recorder, Script};
use crate::gateway::{Gateway, only};

#[test]
fn every_target_form_is_forwarded_in_origin_form() {
    let recorder = Recorder::start();
    let gateway = Gateway::to(recorder.address);
    for (request_line, target, host) in [
        ("GET /a?b=c%20d HTTP/1.1", "/a?b=c%20d", "a.example"),
        ("GET http://other.example:81/a HTTP/1.1", "/a", "other.example:81"),
        ("GET http://other.example HTTP/1.1", "/", "other.example"),
        ("GET http://other.example?q HTTP/1.1", "/?q", "other.example"),
        ("OPTIONS * HTTP/1.1", "*", "a.example"),
        ("OPTIONS http://other.example HTTP/1.1", "*", "other.example"),
        ("OPTIONS http://other.example/ HTTP/1.1", "/", "other.example"),
        ("GET //a/../b HTTP/1.1", "//a/../b", "a.example"),
    ] {
        let answer = Client::new(gateway.address).ask(request_line, "Connection: close\r\n");
        assert_eq!(answer.status, 200, "{request_line}");
        let request = recorder.take_one();
        assert_eq!((request.target.as_str(), request.field("host")), (target, Some(host)), "{request_line}");
        assert_eq!(request.field("x-forwarded-host"), Some(host));
    }
    assert_eq!(recorder.violations(), [""; 0]);
}

#[test]
fn connect_request_gets_405() {
    let recorder = Recorder::start();
    let gateway = Gateway::to(recorder.address);
    let answer = Client::new(gateway.address).ask("CONNECT other.example:443 HTTP/1.1", "");
    assert_eq!(answer.status, 405);
    assert_eq!(answer.field("proxy-status"), Some("thruway; error=http_request_denied"));
    assert!(recorder.take().is_empty());
}

#[test]
fn hop_by_hop_headers_are_removed_in_both_directions() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: x-hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n\
         TE: trailers\r\nProxy-Connection: x\r\nX-End: 1\r\n\r\n",
    );
    let mut accepted = script.accept();
    let head = accepted.head().to_lowercase();
    for name in ["x-hop", "keep-alive", "te", "proxy-connection"] {
        assert!(!head.contains(&format!("\r\n{name}:")), "{head}");
    }
    assert!(head.contains("\r\nx-end: 1\r\n"));
    accepted.send(
        "HTTP/1.1 200 OK\r\nConnection: x-hop, close\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nX-End: 1\r\nDate: d\r\n\
         Set-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n",
    );
    let answer = client.answer(false);
    let names: Vec<_> = answer.lines.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["x-hop", "keep-alive", "connection"] {
        assert!(!names.contains(&name), "{names:?}");
    }
    assert_eq!(names.iter().filter(|name| **name == "set-cookie").count(), 2);
    assert_eq!((answer.field("x-end"), answer.field("date")), (Some("1"), Some("d")));
    // The upstream server wants to close its connection. The client's connection stays open.
    client.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut again = script.accept();
    assert!(again.head().starts_with("GET /2 "));
    again.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.answer(false).status, 204);
}

#[test]
fn forwarded_headers_of_client_are_replaced() {
    let recorder = Recorder::start();
    let gateway = Gateway::to(recorder.address);
    let lines = "X-Forwarded-For: 9.9.9.9\r\nx-forwarded-proto: https\r\nX-FORWARDED-HOST: evil\r\n";
    Client::new(gateway.address).ask("GET / HTTP/1.1", lines);
    let request = recorder.take_one();
    for (name, value) in
        [("x-forwarded-for", "127.0.0.1"), ("x-forwarded-proto", "http"), ("x-forwarded-host", "a.example")]
    {
        assert_eq!((request.count(name), request.field(name)), (1, Some(value)));
    }
    assert_eq!(request.field("via"), Some("1.1 thruway"));
}

/// Regression test: the gateway forwarded all such fields except those that it sets. Upstream servers trusted
/// the client's values.
#[test]
fn other_x_forwarded_headers_of_client_are_removed() {
    let recorder = Recorder::start();
    let gateway = Gateway::to(recorder.address);
    let lines = "X-Forwarded-Prefix: /evil\r\nx_forwarded-ssl: on\r\nX-Forwarded-: 1\r\nX-Forwarded: 1\r\nX-Forward-Auth: 1\r\n";
    Client::new(gateway.address).ask("GET / HTTP/1.1", lines);
    let request = recorder.take_one();
    let names: Vec<_> = request.lines.iter().map(|(name, _)| name.to_lowercase()).collect();
    let added = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "via"];
    assert_eq!(names, [&["host", "x-forwarded", "x-forward-auth"][..], &added].concat());
}

/// Servers that pass header fields to programs as variables, as in CGI and WSGI, cannot distinguish `-` and
/// `_`.
#[test]
fn headers_spelled_with_underscores_are_removed_too() {
    let recorder = Recorder::start();
    let gateway = Gateway::to(recorder.address);
    let lines = "X_Forwarded_For: 9.9.9.9\r\nX-Forwarded_Proto: https\r\nContent_Length: 5\r\n\
                 Transfer_Encoding: chunked\r\nX_Mine: 1\r\n";
    assert_eq!(Client::new(gateway.address).ask("GET / HTTP/1.1", lines).status, 200);
    let request = recorder.take_one();
    let names: Vec<_> = request.lines.iter().map(|(name, _)| name.replace('_', "-").to_lowercase()).collect();
    assert_eq!(names, ["host", "x-mine", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "via"]);
}

#[test]
fn via_names_the_http_version_of_the_client() {
    let recorder = Recorder::start();
    let gateway = Gateway::to(recorder.address);
    Client::new(gateway.address).ask("GET / HTTP/1.0", "Via: 1.0 first\r\n");
    let request = recorder.take_one();
    let via: Vec<_> =
        request.lines.iter().filter(|(name, _)| name == "Via").map(|(_, value)| value).collect();
    assert_eq!(via, ["1.0 first", "1.0 thruway"]);
}

#[test]
fn forwarded_host_and_via_headers_follow_the_config() {
    let recorder = Recorder::start();
    let forward = ForwardConfig {
        forwarded: ForwardedFields::Forwarded,
        host: HostRewrite::Fixed("backend".into()),
        via: false,
        ..ForwardConfig::default()
    };
    let gateway = Gateway::forwarding(only(recorder.address), forward);
    let lines = "Forwarded: for=9.9.9.9\r\nVia: 1.1 first\r\nX-Forwarded-For: 9.9.9.9\r\n";
    Client::new(gateway.address).ask("GET / HTTP/1.1", lines);
    let request = recorder.take_one();
    assert_eq!(request.field("forwarded"), Some("for=127.0.0.1;proto=http;host=\"a.example\""));
    assert_eq!((request.count("forwarded"), request.field("host")), (1, Some("backend")));
    assert_eq!((request.field("via"), request.count("via")), (Some("1.1 first"), 1));
}

#[test]
fn max_forwards_limits_options_and_trace() {
    let recorder = Recorder::start();
    let gateway = Gateway::to(recorder.address);
    let mut client = Client::new(gateway.address);
    for (method, sent, forwarded) in [
        ("OPTIONS", "2", "1"),
        ("TRACE", "1", "0"),
        ("GET", "0", "0"),
        ("GET", "5", "5"),
        ("OPTIONS", "x", "x"),
    ] {
        client.ask(&format!("{method} / HTTP/1.1"), &format!("Max-Forwards: {sent}\r\n"));
        let request = recorder.take_one();
        assert_eq!(
            (request.field("max-forwards"), request.count("max-forwards")),
            (Some(forwarded), 1),
            "{method}"
        );
    }
    for (method, status) in [("OPTIONS", 204), ("TRACE", 405)] {
        let answer = client.ask(&format!("{method} / HTTP/1.1"), "Max-Forwards: 0\r\n");
        assert_eq!((answer.status, answer.field("allow").is_some()), (status, true));
    }
    assert!(recorder.take().is_empty());
}
