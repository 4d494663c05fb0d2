//! Tests of changes to paths, hosts and header fields.

use thruway_gateway::{
    FieldRewrite, ForwardConfig, HostRewrite, PathMatch, PathPattern, PathRewrite, Rewrite,
};

use thruway_server::{Config, Networks, ProxyFields, TrustedProxies};

use super::{Client, Recorder, Script};
use crate::gateway::Gateway;

fn prefix() -> PathMatch {
    PathMatch::Prefix("/api".to_owned())
}

fn path(template: &str, paths: &PathMatch) -> ForwardConfig {
    let rewrite = Rewrite { path: Some(PathRewrite::new(template, paths).unwrap()), ..Rewrite::default() };
    ForwardConfig { rewrite, ..ForwardConfig::default() }
}

/// Sends a request through a route for `paths` with the rewrite `template`, and returns the target that
/// arrives at the upstream server.
fn upstream_target(paths: &PathMatch, template: &str, target: &str) -> String {
    let recorder = Recorder::start();
    let gateway = Gateway::routed(recorder.address, paths.clone(), path(template, paths));
    let answer = Client::new(gateway.address).ask(&format!("GET {target} HTTP/1.1"), "");
    assert_eq!(answer.status, 200, "{template} {target}");
    assert_eq!(recorder.violations(), [""; 0]);
    recorder.take_one().target
}

#[test]
fn path_prefix_is_replaced_and_the_rest_is_unchanged() {
    for (template, target, expected) in [
        ("{rest}", "/api/a%2Fb/%41?c=%64&e", "/a%2Fb/%41?c=%64&e"),
        ("{rest}", "/api", "/"),
        ("{rest}", "/api?a", "/?a"),
        ("{rest}", "/api/", "/"),
        ("{rest}", "/api//evil.example/a", "/evil.example/a"),
        ("{rest}", "http://a.example/api/b?c", "/b?c"),
        ("/v2{rest}", "/api//a", "/v2//a"),
        ("/v2{rest}", "/api", "/v2"),
        ("/v2{path}/end", "/api/a", "/v2/api/a/end"),
        ("/fixed", "/api/a?", "/fixed?"),
    ] {
        assert_eq!(upstream_target(&prefix(), template, target), expected, "{template} {target}");
    }
}

#[test]
fn pattern_parameters_are_inserted_into_the_template() {
    let pattern = |text: &str| PathMatch::Pattern(PathPattern::parse(text).unwrap());
    for (paths, template, target, expected) in [
        ("/users/{id}", "/v2/people/{id}", "/users/5%20?a", "/v2/people/5%20?a"),
        ("/u/{id}/posts/{post}.json", "/p/{post}/of/{id}", "/u/a/posts/b.json", "/p/b/of/a"),
        ("/static/{*rest}", "/{rest}", "/static/a//b", "/a//b"),
        ("/static/{*rest}", "/files/{rest}?", "/static/a", ""),
    ] {
        let paths = pattern(paths);
        if expected.is_empty() {
            assert!(PathRewrite::new(template, &paths).is_err());
        } else {
            assert_eq!(upstream_target(&paths, template, target), expected, "{template} {target}");
        }
    }
}

/// A server that resolves the dots would leave the directory that the template starts with.
#[test]
fn dot_segments_cannot_leave_the_rewritten_path() {
    let recorder = Recorder::start();
    let gateway = Gateway::routed(recorder.address, prefix(), path("/tenant/5{rest}", &prefix()));
    let mut client = Client::new(gateway.address);
    for rest in ["/../api/..", "/..%2f6", "/a/..", "/.", "/a%5C..%5cb", "/..;x/6", "/../../6"] {
        let answer = client.ask(&format!("GET /api{rest} HTTP/1.1"), "");
        let expected = if rest == "/../api/.." { 404 } else { 400 };
        assert_eq!(answer.status, expected, "{rest}");
    }
    assert!(recorder.take().is_empty());
    assert_eq!(client.ask("GET /api/a..b/...?../.. HTTP/1.1", "").status, 200);
    assert_eq!(recorder.take_one().target, "/tenant/5/a..b/...?../..");
}

/// Regression test: a separate function searched the rewritten path for dots and did not decode `%3b`. The
/// upstream server got `/t/u/..%3b` and read it as `/t/u/..`.
#[test]
fn dot_segments_in_pattern_parameters_get_400_in_every_spelling() {
    let recorder = Recorder::start();
    let paths = PathMatch::Pattern(PathPattern::parse("/users/v{id}").unwrap());
    let gateway = Gateway::routed(recorder.address, paths.clone(), path("/t/u/{id}", &paths));
    let mut client = Client::new(gateway.address);
    for id in ["..%3b", "..%3Bx", ".%3b", "%2e%2e%3b", "..;", "..%2f", "..%5C"] {
        assert_eq!(client.ask(&format!("GET /users/v{id} HTTP/1.1"), "").status, 400, "{id}");
    }
    assert!(recorder.take().is_empty());
    assert_eq!(client.ask("GET /users/v..a%3b HTTP/1.1", "").status, 200);
}

fn fields(change: impl FnOnce(&mut FieldRewrite)) -> FieldRewrite {
    let mut fields = FieldRewrite::default();
    change(&mut fields);
    fields
}

#[test]
fn request_headers_are_removed_set_and_added() {
    let recorder = Recorder::start();
    let paths = prefix();
    let request = fields(|fields| {
        fields.remove("X-Debug").unwrap();
        fields.set("X-User", "{client} {host} {path}{query} {scheme} {rest} {{}}", &paths).unwrap();
        fields.add("Accept", "text/*", &paths).unwrap();
    });
    let rewrite = Rewrite { request, ..Rewrite::default() };
    let forward = ForwardConfig { rewrite, ..ForwardConfig::default() };
    let gateway = Gateway::routed(recorder.address, paths, forward);
    let lines = "x-debug: 1\r\nX_Debug: 2\r\nX_USER: root\r\nx-user: root\r\nAccept: a/b\r\nX-Other: c\r\n\
                 Connection: x-user\r\n";
    assert_eq!(Client::new(gateway.address).ask("GET /api/a%20b?c HTTP/1.1", lines).status, 200);
    let got = recorder.take_one();
    let named = |name: &str| -> Vec<&str> {
        let is_named = |(of, _): &&(String, String)| of.replace('_', "-").eq_ignore_ascii_case(name);
        got.lines.iter().filter(is_named).map(|(_, value)| value.as_str()).collect()
    };
    assert_eq!(named("x-user"), ["127.0.0.1 a.example /api/a%20b?c http /a%20b {}"]);
    assert_eq!((named("x-debug"), named("x-other")), (vec![], vec!["c"]));
    assert_eq!(named("accept"), ["a/b", "text/*"]);
}

#[test]
fn client_cannot_send_a_set_header_as_trailer() {
    let recorder = Recorder::start();
    let request = fields(|fields| fields.set("X-User", "none", &prefix()).unwrap());
    let rewrite = Rewrite { request, ..Rewrite::default() };
    let forward = ForwardConfig { rewrite, ..ForwardConfig::default() };
    let gateway = Gateway::forwarding(crate::gateway::only(recorder.address), forward);
    let mut client = Client::new(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send("1\r\na\r\n0\r\nX-User: root\r\nX_User: root\r\nX-Other: b\r\n\r\n");
    assert_eq!(client.answer(false).status, 200);
    let got = recorder.take_one();
    assert_eq!(got.trailers, [("X-Other".to_owned(), "b".to_owned())]);
    assert_eq!(got.field("x-user"), Some("none"));
}

#[test]
fn response_headers_are_rewritten_also_on_failures() {
    let script = Script::start();
    let response = fields(|fields| {
        fields.remove("X-Powered-By").unwrap();
        fields.set("Cache-Control", "no-store", &prefix()).unwrap();
        fields.add("X-Asked", "{path} of {client}", &prefix()).unwrap();
    });
    let rewrite = Rewrite { response, ..Rewrite::default() };
    let forward = ForwardConfig { rewrite, ..ForwardConfig::default() };
    let gateway = Gateway::routed(script.address, prefix(), forward);
    let mut client = Client::new(gateway.address);
    client.send("GET /api/a HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut accepted = script.accept();
    accepted.head();
    accepted.send(
        "HTTP/1.1 200 OK\r\nx-powered-by: a\r\ncache-control: public\r\nX-Asked: b\r\nContent-Length: 0\r\n\r\n",
    );
    let answer = client.answer(false);
    let named = |name: &str| -> Vec<_> {
        answer.lines.iter().filter(|(of, _)| of == name).map(|(_, value)| value.clone()).collect()
    };
    assert_eq!((named("x-powered-by").len(), named("cache-control")), (0, vec!["no-store".to_owned()]));
    assert_eq!(named("x-asked"), ["b", "/api/a of 127.0.0.1"]);
    drop(script);
    drop(accepted);
    let failed = client.ask("POST /api/b HTTP/1.1", "");
    assert!(failed.status >= 500, "{failed:?}");
    assert_eq!(
        (failed.field("cache-control"), failed.field("x-asked")),
        (Some("no-store"), Some("/api/b of 127.0.0.1"))
    );
}

/// Regression test: responses that the gateway created without contacting an upstream server lacked these
/// fields.
#[test]
fn headers_of_gateway_responses_are_rewritten_too() {
    let recorder = Recorder::start();
    let response = fields(|fields| fields.set("Cache-Control", "no-store", &prefix()).unwrap());
    let rewrite = Rewrite { response, ..path("/v2{rest}", &prefix()).rewrite };
    let forward = ForwardConfig { rewrite, ..ForwardConfig::default() };
    let gateway = Gateway::routed(recorder.address, prefix(), forward);
    let mut client = Client::new(gateway.address);
    for (line, lines, status) in [
        ("OPTIONS /api/a HTTP/1.1", "Max-Forwards: 0\r\n", 204),
        ("TRACE /api/a HTTP/1.1", "Max-Forwards: 0\r\n", 405),
        ("GET /api/a/.. HTTP/1.1", "", 400),
    ] {
        let answer = client.ask(line, lines);
        assert_eq!((answer.status, answer.field("cache-control")), (status, Some("no-store")), "{line}");
    }
    assert!(recorder.take().is_empty());
}

/// Starts a gateway that sends the request id to upstream server and client. It trusts proxies of `networks`.
fn with_request_ids(recorder: &Recorder, networks: &[&str]) -> Gateway {
    let request = fields(|fields| fields.set("X-Request-Id", "{request_id}", &prefix()).unwrap());
    let response = fields(|fields| fields.set("X-Called", "{request_id}", &prefix()).unwrap());
    let rewrite = Rewrite { request, response, ..Rewrite::default() };
    let forward = ForwardConfig { rewrite, ..ForwardConfig::default() };
    let networks: Networks = networks.iter().map(|network| network.parse().unwrap()).collect();
    let trusted_proxies = TrustedProxies::new(networks, ProxyFields::XForwarded);
    Gateway::with(recorder.address, forward, Config { trusted_proxies, ..Config::default() })
}

#[test]
fn request_id_is_unique_and_sent_to_upstream_and_client() {
    let recorder = Recorder::start();
    let gateway = with_request_ids(&recorder, &[]);
    let mut client = Client::new(gateway.address);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let answer = client.ask("GET / HTTP/1.1", "X-Request-Id: of-the-client\r\n");
        let request = recorder.take_one();
        assert_eq!(
            (request.count("x-request-id"), request.field("x-request-id")),
            (1, answer.field("x-called"))
        );
        ids.push(answer.field("x-called").unwrap().to_owned());
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    assert!(
        ids.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())),
        "{ids:?}"
    );
}

#[test]
fn valid_request_id_of_trusted_proxy_is_kept() {
    let recorder = Recorder::start();
    let gateway = with_request_ids(&recorder, &["127.0.0.1"]);
    let mut client = Client::new(gateway.address);
    let long = "x".repeat(129);
    for (id, is_kept) in [("a-1/b", true), ("a b", false), ("", false), (&*long, false)] {
        let answer = client.ask("GET / HTTP/1.1", &format!("X-Request-Id: {id}\r\n"));
        assert_eq!(answer.field("x-called") == Some(id), is_kept, "{id}");
        assert_eq!(recorder.take_one().field("x-request-id"), answer.field("x-called"));
    }
}

#[test]
fn location_is_rewritten_unless_disabled() {
    for (keeps_location, expected) in [(false, "/api/b?c"), (true, "/v2/b?c")] {
        let script = Script::start();
        let mut forward = path("/v2{rest}", &prefix());
        forward.rewrite.keeps_location = keeps_location;
        let gateway = Gateway::routed(script.address, prefix(), forward);
        let mut client = Client::new(gateway.address);
        client.send("GET /api/a HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut accepted = script.accept();
        assert!(accepted.head().starts_with("GET /v2/a HTTP/1.1\r\n"));
        accepted.send("HTTP/1.1 302 Found\r\nLocation: /v2/b?c\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(client.answer(false).field("location"), Some(expected));
    }
}

/// A `Location` with the path as the client sent it would lead to another host.
#[test]
fn client_path_cannot_inject_a_host_into_location() {
    let script = Script::start();
    let gateway = Gateway::routed(script.address, prefix(), path("/v2{rest}", &prefix()));
    let mut client = Client::new(gateway.address);
    let mut accepted = None;
    for sent in ["//api/a", "//evil.example/../api/a", "/./api/a", "/%61pi/a"] {
        client.send(format!("GET {sent} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let accepted = accepted.get_or_insert_with(|| script.accept());
        assert!(accepted.head().starts_with("GET /v2/a HTTP/1.1\r\n"), "{sent}");
        accepted.send("HTTP/1.1 302 Found\r\nLocation: /v2/b\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(client.answer(false).field("location"), Some("/api/b"), "{sent}");
    }
}

#[test]
fn host_header_can_be_the_server_address() {
    let recorder = Recorder::start();
    let forward = ForwardConfig { host: HostRewrite::Server, ..ForwardConfig::default() };
    let gateway = Gateway::forwarding(crate::gateway::only(recorder.address), forward);
    let mut client = Client::new(gateway.address);
    let line = "X-Padding: a\r\nContent-Length: 3\r\n\r\nabc".trim_end_matches("\r\n");
    client.send(format!("POST /a HTTP/1.1\r\nHost: a.example\r\n{line}"));
    assert_eq!(client.answer(false).text(), "POST /a abc");
    let request = recorder.take_one();
    assert_eq!((request.field("host"), request.count("host")), (Some(&*recorder.address.to_string()), 1));
    assert_eq!(request.field("x-forwarded-host"), Some("a.example"));
}
