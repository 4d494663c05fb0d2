//! Tests of the demo, which runs without a config.

use crate::client::{Client, get};
use crate::process::{Signal, Thruway};

#[test]
fn index_page_lists_all_paths() {
    let mut thruway = Thruway::demo(&[]);
    let address = thruway.address();
    let page = get(&address, "/");
    assert!(page.has("content-type: text/html; charset=utf-8"));
    for path in [
        "/plaintext",
        "/json",
        "/echo",
        "/upload",
        "/ok",
        "/download?bytes=4096",
        "/headers",
        "/events",
        "/healthz",
    ] {
        assert!(page.text().contains(path.split('?').next().unwrap()), "{path}");
        if path == "/events" {
            continue;
        }
        let line = if path == "/echo" { "POST" } else { "GET" };
        let response = Client::connect(&address).request(&format!("{line} {path}"), "");
        assert_eq!(response.status(), "200", "{path}");
    }
}

#[test]
fn benchmark_endpoints_return_expected_responses() {
    let mut thruway = Thruway::demo(&[]);
    let mut client = Client::connect(&thruway.address());
    let plaintext = client.get("/plaintext");
    assert!(plaintext.has("content-type: text/plain") && plaintext.has("content-length: 13"));
    assert!(plaintext.head.contains("\r\nserver: ") && plaintext.head.contains("\r\ndate: "));
    assert_eq!(plaintext.text(), "Hello, World!");
    let json = client.get("/json");
    assert!(json.has("content-type: application/json"));
    assert_eq!(json.text(), r#"{"message":"Hello, World!"}"#);
    assert_eq!(client.get("/ok").text(), "ok");
    assert_eq!(client.get("/healthz").text(), "healthy\n");
    assert_eq!(client.get("/nothing").status(), "404");
    let refused = client.request("DELETE /ok", "");
    assert!(refused.status() == "405" && refused.has("allow: get, head, options"), "{}", refused.head);
}

#[test]
fn echo_streams_the_body_back() {
    let mut thruway = Thruway::demo(&[]);
    let mut client = Client::connect(&thruway.address());
    client.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
    assert!(client.head().contains("transfer-encoding: chunked\r\n"));
    assert_eq!(client.chunk(), b"one");
    client.send("3\r\ntwo\r\n");
    assert_eq!(client.chunk(), b"two");
    client.send("0\r\n\r\n");
    assert_eq!(client.chunk(), b"");

    client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nwhole");
    assert_eq!(client.response(false).text(), "whole");
    let large = "0123456789abcdef".repeat(1 << 12);
    client.send(&format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", large.len()));
    client.send(&large);
    assert!(client.response(false).text() == large);
    assert_eq!(client.get("/ok").status(), "200");
}

#[test]
fn download_sends_requested_number_of_bytes() {
    let mut thruway = Thruway::demo(&[]);
    let mut client = Client::connect(&thruway.address());
    for bytes in [0, 1, 1_000_000] {
        let whole = client.get(&format!("/download?bytes={bytes}"));
        assert!(whole.has(&format!("content-length: {bytes}")));
        let chunked = client.get(&format!("/download?bytes={bytes}&chunked"));
        assert!(chunked.has("transfer-encoding: chunked"));
        assert!(whole.content.len() == bytes && chunked.content == whole.content);
    }
    assert_eq!(client.get("/download?bytes=3&chunked=0&close=%30&delay=1").text(), "xxx");
    let last = client.get("/download?bytes=3&close");
    assert!(last.has("connection: close") && client.is_closed());
}

#[test]
fn head_of_download_has_content_length_and_no_body() {
    let mut thruway = Thruway::demo(&[]);
    let mut client = Client::connect(&thruway.address());
    let head = client.request("HEAD /download?bytes=1073741824", "");
    assert!(head.status() == "200" && head.has("content-length: 1073741824"));
    // The next response arrives at once on the same connection.
    assert_eq!(client.get("/ok").text(), "ok");
}

#[test]
fn invalid_queries_get_400_with_a_hint() {
    let mut thruway = Thruway::demo(&[]);
    let mut client = Client::connect(&thruway.address());
    let hint = "\n\nhint: /download?bytes=N, with &chunked, &delay=MS and &close optional\n";
    for (query, reason) in [
        ("", "missing field `bytes`"),
        ("?bytes=", "`` is not a number from 0 to 1073741824"),
        ("?bytes=-1", "`-1` is not a number from 0 to 1073741824"),
        ("?bytes=1073741825", "`1073741825` is not a number from 0 to 1073741824"),
        ("?bytes=99999999999999999999", "`99999999999999999999` is not a number from 0 to 1073741824"),
        ("?bytes=1&delay=60001", "`60001` is not a number from 0 to 60000"),
        ("?bytes=1&close=perhaps", "write a flag without a value, or with `0` or `1`"),
    ] {
        let response = client.get(&format!("/download{query}"));
        assert_eq!(response.status(), "400", "{query}");
        assert_eq!(response.text(), format!("invalid query: {reason}{hint}"));
    }
    assert_eq!(client.get("/events?count=x").status(), "400");
}

#[test]
fn headers_endpoint_shows_the_parsed_request() {
    let mut thruway = Thruway::demo(&[]);
    let response = Client::connect(&thruway.address()).request("GET /headers?a=b", "X-Y:  z \r\n");
    let seen: serde_json::Value = serde_json::from_slice(&response.content).unwrap();
    assert_eq!((&seen["method"], &seen["target"]), (&"GET".into(), &"/headers?a=b".into()));
    assert_eq!(seen["version"], "HTTP/1.1");
    assert_eq!(seen["fields"], serde_json::json!([["Host", "a"], ["X-Y", "z"]]));
}

#[test]
fn events_endpoint_streams_server_sent_events() {
    let mut thruway = Thruway::demo(&[]);
    let address = thruway.address();
    let response = get(&address, "/events?count=2&every=1");
    assert!(response.has("content-type: text/event-stream"));
    assert_eq!(response.text(), "data: 1\nevent: tick\nid: 1\n\ndata: 2\nevent: tick\nid: 2\n\n");
    let mut endless = Client::connect(&address);
    endless.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(endless.head().contains("text/event-stream"));
    assert!(endless.chunk().starts_with(b"data: 1\n"));
}

#[test]
fn demo_logs_that_it_has_no_config() {
    let mut thruway = Thruway::demo(&[]);
    thruway.wait_for_log("no config: serving the test server");
    thruway.signal(Signal::INT);
    assert_eq!(thruway.end().code, Some(0));
}
