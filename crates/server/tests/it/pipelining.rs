//! Pipelining: responses in order, one write for many, bounded memory.

use thruway_server::{Config, OwnedRequest, Request, Response, Router};
use thruway_testkit::test_server::TestServer;

use crate::gate::Gates;

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// Splits `answers` and returns their bodies. Each must have status 200 and a `Content-Length`.
fn contents(answers: &str) -> Vec<String> {
    let mut contents = Vec::new();
    let mut rest = answers;
    while !rest.is_empty() {
        assert!(rest.starts_with("HTTP/1.1 200 OK\r\n"), "{rest}");
        let (head, after) = rest.split_once("\r\n\r\n").expect("a head should end");
        let length = head.split("Content-Length: ").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
        contents.push(after[..length].to_owned());
        rest = &after[length..];
    }
    contents
}

fn path_of(request: &Request) -> Response {
    Response::text(request.path().to_owned())
}

#[test]
fn pipelined_responses_are_sent_in_order_in_one_write() {
    let scene = TestServer::new(path_of);
    let mut client = scene.connect();
    let requests: String = (0..100).map(|n| get(&format!("/{n}"))).collect();
    client.send(requests);
    let expected: Vec<String> = (0..100).map(|n| format!("/{n}")).collect();
    assert_eq!(contents(&client.received()), expected);
    assert_eq!(client.writes(), 1);
}

#[test]
fn responses_do_not_depend_on_request_fragmentation() {
    let requests =
        [get("/a"), "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello".to_owned(), get("/c")];
    for size in 1..60 {
        let scene = TestServer::new(path_of);
        let mut client = scene.connect();
        client.limit_read_size(size).send(requests.concat());
        assert_eq!(contents(&client.received()), ["/a", "/b", "/c"], "pieces of {size}");
    }
}

#[test]
fn responses_keep_order_when_handlers_finish_out_of_order() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |request: OwnedRequest| handler.clone().answer(request));
    let mut client = scene.connect();
    client.send([get("/1"), get("/2"), get("/3")].concat());
    assert_eq!(gates.waiting(), 3, "all three are being answered");
    gates.open("/3");
    gates.open("/2");
    assert_eq!(client.received(), "");
    gates.open("/1");
    assert_eq!(contents(&client.received()), ["/1", "/2", "/3"]);
    assert_eq!(client.writes(), 1);
}

#[test]
fn unsafe_method_waits_for_earlier_and_blocks_later_requests() {
    // Only safe methods may be processed in parallel (RFC 9112 §9.3.2).
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |request: OwnedRequest| handler.clone().answer(request));
    let mut client = scene.connect();
    let post = "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    client.send([&get("/1"), post, &get("/3")].concat());
    assert_eq!(gates.waiting(), 1);
    gates.open("/1");
    assert_eq!(contents(&client.received()), ["/1"]);
    assert_eq!(gates.waiting(), 1);
    gates.open("/2");
    gates.open("/3");
    assert_eq!(contents(&client.received()), ["/2", "/3"]);
}

#[test]
fn pipelined_requests_setting_limits_concurrent_handlers() {
    let gates = Gates::default();
    let handler = gates.clone();
    let config = Config { pipelined_requests: 4, ..Config::default() };
    let scene = TestServer::with_config(move |request: OwnedRequest| handler.clone().answer(request), config);
    let mut client = scene.connect();
    client.send((0..10).map(|n| get(&format!("/{n}"))).collect::<String>());
    assert_eq!(gates.waiting(), 4);
    for n in 0..10 {
        gates.open(&format!("/{n}"));
        client.run();
    }
    assert_eq!(contents(&client.received()).len(), 10);
}

#[test]
fn server_stops_reading_requests_while_client_does_not_read() {
    let scene = TestServer::new(|| "x".repeat(1000));
    let mut client = scene.connect();
    client.set_receive_capacity(0);
    let request = get("/");
    let many = request.repeat(100_000);
    client.send(&many);
    let read = many.len() - client.unread();
    assert!(read < 200 << 10, "{read} bytes of requests were read while no response was");
    client.add_receive_capacity(usize::MAX);
    assert_eq!(contents(&client.received()).len(), 100_000);
}

#[test]
fn client_reset_drops_its_handlers() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |request: OwnedRequest| handler.clone().answer(request));
    let mut client = scene.connect();
    client.send([get("/1"), get("/2")].concat());
    assert_eq!(gates.waiting(), 2);
    client.reset();
    assert!(client.is_closed());
    assert_eq!(gates.waiting(), 0);
}

#[test]
fn half_closed_client_gets_all_pipelined_responses() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |request: OwnedRequest| handler.clone().answer(request));
    let mut client = scene.connect();
    client.send([get("/1"), get("/2")].concat()).finish();
    assert!(!client.is_closed());
    gates.open("/1");
    gates.open("/2");
    let answers = client.received();
    assert!(answers.contains("\r\n\r\n/1") && answers.ends_with("\r\n\r\n/2"), "{answers}");
    assert!(client.is_closed());
}

#[test]
fn buffered_requests_of_half_closed_client_are_answered() {
    let router = Router::new().get("/big", || "y".repeat(50_000)).get("/small", || "z");
    let scene = TestServer::new(router);
    let mut client = scene.connect();
    client.set_receive_capacity(0);
    client.send([get("/big").repeat(5), get("/small")].concat()).finish();
    client.add_receive_capacity(usize::MAX);
    assert_eq!(client.received().matches("HTTP/1.1 200 OK").count(), 6);
    assert!(client.is_closed());
}
