//! Tests of policies with requests of one client and of several, in memory.

use std::cell::RefCell;
use std::rc::Rc;

use thruway_gateway::{
    AddressesConfig, ApiKeysConfig, ConcurrencyConfig, CountBy, KeyPlace, PolicyConfig, RateLimitConfig,
};
use thruway_server::{
    BoxError, Config, Content, ContentWriter, Handler, IntoHandler, Networks, OwnedRequest, Record, Request,
    Response, with_whole_content,
};
use thruway_testkit::test_server::{TestClient, TestServer};

use super::guarded;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const GET_FILE: &str = "GET /file HTTP/1.1\r\nHost: a\r\n\r\n";

fn scene(policies: impl IntoIterator<Item = PolicyConfig>, handler: impl Handler) -> TestServer {
    TestServer::new(guarded(policies, handler.into_handler()))
}

fn hello() -> impl Handler {
    with_whole_content(1 << 20, |request: &Request<'_>| format!("{} bytes", request.content().len()))
}

fn denied(network: &str) -> PolicyConfig {
    let deny = Networks::from_iter([network.parse().unwrap()]);
    PolicyConfig::Addresses(AddressesConfig { allow: None, deny })
}

fn one_per_hour(by: CountBy) -> PolicyConfig {
    let limit = RateLimitConfig { burst: 1, by, ..RateLimitConfig::per_second(1) };
    PolicyConfig::RateLimit(RateLimitConfig { per: std::time::Duration::from_hours(1), ..limit })
}

fn one_at_a_time() -> PolicyConfig {
    PolicyConfig::Concurrency(ConcurrencyConfig::of_route(1))
}

/// Returns the statuses of all responses in `bytes`.
fn statuses(bytes: &str) -> Vec<&str> {
    bytes.match_indices("HTTP/1.1 ").map(|(place, start)| &bytes[place + start.len()..][..3]).collect()
}

fn ask(client: &mut TestClient, bytes: &str) -> String {
    client.send(bytes).received()
}

#[test]
fn address_policy_uses_the_client_address() {
    // Clients of a scene have the address 192.0.2.1.
    for (range, status) in [("192.0.2.0/24", "403"), ("192.0.3.0/24", "200"), ("unix", "200")] {
        let scene = scene([denied(range)], hello());
        assert_eq!(statuses(&ask(&mut scene.connect(), GET)), [status], "{range}");
    }
}

#[test]
fn first_rejecting_policy_decides_the_status() {
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    let orders = [
        ([denied("192.0.2.1"), PolicyConfig::ContentBytesMax(4)], "403"),
        ([PolicyConfig::ContentBytesMax(4), denied("192.0.2.1")], "413"),
    ];
    for (policies, status) in orders {
        let scene = scene(policies, hello());
        let mut client = scene.connect();
        assert_eq!(statuses(&ask(&mut client, post)), [status]);
        assert_eq!(statuses(&ask(&mut client, post)), [status], "the connection stays open");
    }
}

#[test]
fn access_record_names_the_policy_but_response_does_not() {
    let taken = Rc::<RefCell<Vec<_>>>::default();
    let records = taken.clone();
    let take = Box::new(move |record: &Record<'_>| {
        let refused = record.refused.map(|refused| (refused.policy.to_string(), refused.reason));
        records.borrow_mut().push((record.status.as_u16(), refused));
    });
    let handler = guarded([keys_of_ada(), PolicyConfig::ContentBytesMax(4)], hello().into_handler());
    let scene = TestServer::with(handler, Config::default(), Some(take));
    let mut client = scene.connect();
    let refused = ask(&mut client, GET);
    assert!(refused.contains("\r\nProxy-Status: thruway; error=http_request_denied\r\n"), "{refused}");
    assert!(!refused.contains("policy\r\n"), "the response does not reveal the policy: {refused}");
    for (key, length) in [("k9", 1), ("k1", 5), ("k1", 1)] {
        let head =
            format!("POST / HTTP/1.1\r\nHost: a\r\nX-Api-Key: {key}\r\nContent-Length: {length}\r\n\r\n");
        ask(&mut client, &(head + &"x".repeat(length)));
    }
    let by = |reason| Some(("policy".to_owned(), reason));
    let expected = [
        (401, by("credentials_missing")),
        (401, by("credentials_invalid")),
        (413, by("content_too_large")),
        (200, None),
    ];
    assert_eq!(*taken.borrow(), expected);
}

#[test]
fn pipelined_requests_are_rate_limited_one_by_one() {
    let scene = scene([one_per_hour(CountBy::Address)], hello());
    let mut client = scene.connect();
    assert_eq!(statuses(&ask(&mut client, &GET.repeat(3))), ["200", "429", "429"]);
    let again = ask(&mut scene.connect(), GET);
    assert_eq!(statuses(&again), ["429"], "requests are counted by address, not by connection");
    assert!(again.contains("\r\nRetry-After: 36") && again.contains("\r\nRateLimit-Limit: 1\r\n"), "{again}");
}

#[test]
fn requests_without_the_key_header_are_counted_by_address() {
    let scene = scene([one_per_hour(CountBy::Header("X-Key".to_owned()))], hello());
    let mut client = scene.connect();
    let mut with = |lines: &str| {
        let answer = ask(&mut client, &format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        statuses(&answer)[0].to_owned()
    };
    assert_eq!((with("X-Key: a\r\n"), with("x-key: a\r\n")), ("200".to_owned(), "429".to_owned()));
    assert_eq!((with("X-Key: b\r\n"), with("")), ("200".to_owned(), "200".to_owned()));
    assert_eq!((with(""), with("X-Key: a\r\nX-Key: b\r\n")), ("429".to_owned(), "200".to_owned()));
}

#[test]
fn rate_limit_can_count_by_identity_of_previous_policy() {
    let scene = scene([keys_of_ada(), one_per_hour(CountBy::Header("X-User".to_owned()))], hello());
    let mut client = scene.connect();
    let mut with = |key: &str| {
        let lines = format!("X-Api-Key: {key}\r\nX-User: {key}\r\n");
        let answer = ask(&mut client, &format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        statuses(&answer)[0].to_owned()
    };
    assert_eq!(["k9", "k1", "k2", "k9"].map(&mut with), ["401", "200", "429", "401"], "two keys, one user");
}

/// Allows the keys `k1` and `k2`.
fn keys_of_ada() -> PolicyConfig {
    let digests = [
        "sha256:6ab9f1eb8f7d3388f4f9d586f66e99fd54080df2c446f0e58668b09c08a16dd0",
        "sha256:015f7e6bc5aeaf483724089e9252cc13b50951a6b69412522765cff4d780306e",
    ];
    PolicyConfig::ApiKeys(ApiKeysConfig {
        place: KeyPlace::Header("X-Api-Key".to_owned()),
        keys: digests.map(|digest| ("ada".to_owned(), digest.parse().unwrap())).to_vec(),
        user_field: Some("X-User".to_owned()),
    })
}

/// Sends 10 bytes, and 10 more at the end of the request's body.
async fn in_two_pieces(mut request: OwnedRequest) -> Content {
    Content::written_by(|mut writer: ContentWriter| async move {
        writer.write(&b"0123456789"[..]).await;
        while request.content().next().await.is_some() {}
        writer.write(&b"0123456789"[..]).await;
        Ok::<(), BoxError>(())
    })
}

#[test]
fn permit_is_held_until_response_body_ends() {
    let scene = TestServer::new(guarded([one_at_a_time()], in_two_pieces.into_handler()));
    let mut first = scene.connect();
    let begun = ask(&mut first, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n");
    assert!(begun.contains("\r\n0123456789\r\n"), "{begun}");
    let refused = ask(&mut scene.connect(), GET);
    assert_eq!(statuses(&refused), ["503"]);
    assert!(refused.contains("\r\nRetry-After: 1\r\n"), "{refused}");
    assert!(ask(&mut first, "x").ends_with("0123456789\r\n0\r\n\r\n"));
    assert_eq!(statuses(&ask(&mut scene.connect(), GET)), ["200"]);
}

#[test]
fn client_disconnect_during_response_releases_permit() {
    let scene = TestServer::new(guarded([one_at_a_time()], in_two_pieces.into_handler()));
    let mut first = scene.connect();
    first.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n");
    assert_eq!(statuses(&ask(&mut scene.connect(), GET)), ["503"]);
    first.reset();
    assert_eq!(statuses(&ask(&mut scene.connect(), GET)), ["200"]);
}

#[test]
fn client_disconnect_before_response_releases_permit() {
    let never = |_: OwnedRequest| std::future::pending::<Response>();
    let scene = TestServer::new(guarded([one_at_a_time()], never.into_handler()));
    let mut first = scene.connect();
    first.send(GET);
    let mut second = scene.connect();
    assert_eq!(statuses(&ask(&mut second, GET)), ["503"]);
    first.reset();
    assert_eq!(statuses(&ask(&mut second, GET)), [""; 0], "the handler has not responded yet");
}

#[test]
fn permit_is_held_until_last_response_bytes_are_sent() {
    // Any file that is larger than the sockets' buffers.
    let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let handler = move |request: &Request<'_>| {
        let content = match request.path() {
            "/file" => Content::file(file.try_clone().unwrap(), 0, 1 << 20),
            _ => Content::from(vec![b'x'; 1 << 20]),
        };
        Response::text(content)
    };
    let scene = TestServer::new(guarded([one_at_a_time()], handler.into_handler()));
    for request in [GET, GET_FILE] {
        let mut slow = scene.connect();
        slow.set_receive_capacity(1000).send(request);
        assert_eq!(statuses(&ask(&mut scene.connect(), GET)), ["503"], "{request}");
        slow.add_receive_capacity(1 << 30);
        assert!(slow.received_bytes().len() > 1 << 20);
        let mut other = scene.connect();
        assert_eq!(statuses(&ask(&mut other, GET)), ["200"], "{request}");
    }
}

#[test]
fn chunked_body_above_the_limit_gets_413() {
    let scene = scene([PolicyConfig::ContentBytesMax(8)], hello());
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut client = scene.connect();
    client.send(head).send("5\r\nhello\r\n");
    assert_eq!(client.received(), "");
    assert_eq!(statuses(&ask(&mut client, "4\r\nworl\r\n")), ["413"]);
    let mut client = scene.connect();
    client.send(head).send("5\r\nhello\r\n");
    assert!(ask(&mut client, "3\r\nwor\r\n0\r\n\r\n").ends_with("8 bytes"));
    let mut at_once = scene.connect();
    assert_eq!(statuses(&ask(&mut at_once, &format!("{head}9\r\nhelloworl\r\n0\r\n\r\n"))), ["413"]);
}

#[test]
fn rejected_request_gets_no_100_continue() {
    let scene = scene([denied("192.0.2.1")], hello());
    let mut client = scene.connect();
    let answer =
        ask(&mut client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(statuses(&answer), ["403"]);
}
