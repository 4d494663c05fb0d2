//! Tests of requests that pass policies to upstream servers, over sockets.

use thruway_gateway::{BasicAuthConfig, ConcurrencyConfig, PolicyConfig};

use super::guarded;
use crate::backend::{Backend, Behavior};
use crate::forward::{Client, Recorder};
use crate::gateway::{Gateway, until};

/// The only user is `ada` with the password `open sesame`.
fn users() -> PolicyConfig {
    let hash = bcrypt::hash("open sesame", 4).unwrap().parse().unwrap();
    PolicyConfig::BasicAuth(BasicAuthConfig {
        realm: None,
        users: vec![("ada".to_owned(), hash)],
        user_field: Some("X-User".to_owned()),
    })
}

const LOGIN: &str = "Authorization: Basic YWRhOm9wZW4gc2VzYW1l\r\n";

#[test]
fn upstream_gets_authenticated_user_despite_client_headers() {
    let recorder = Recorder::start();
    let gateway = Gateway::guarded(recorder.address, |handler| guarded([users()], handler));
    let lines = "X-User: root\r\nX_User: root\r\nConnection: X-User, close\r\n";
    assert_eq!(Client::new(gateway.address).ask("GET / HTTP/1.1", lines).status, 401);
    assert!(recorder.take().is_empty());
    for _ in 0..2 {
        let answer = Client::new(gateway.address).ask("GET / HTTP/1.1", &format!("{lines}{LOGIN}"));
        assert_eq!(answer.status, 200);
        let request = recorder.take_one();
        let users: Vec<_> = request.lines.iter().filter(|(name, _)| name.contains("ser")).collect();
        assert_eq!(users, [&("X-User".to_owned(), "ada".to_owned())]);
    }
    assert_eq!(recorder.violations(), [""; 0]);
}

#[test]
fn client_cannot_send_identity_header_as_trailer() {
    let recorder = Recorder::start();
    let gateway = Gateway::guarded(recorder.address, |handler| guarded([users()], handler));
    for _ in 0..2 {
        let mut client = Client::new(gateway.address);
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{LOGIN}Transfer-Encoding: chunked\r\n\r\n2\r\n"));
        client.send("ab\r\n0\r\nX-User: root\r\n\r\n");
        assert_eq!(client.answer(false).status, 200);
        assert_eq!(recorder.take_one().trailers, []);
    }
}

#[test]
fn body_arrives_complete_after_password_check() {
    let recorder = Recorder::start();
    let gateway = Gateway::guarded(recorder.address, |handler| guarded([users()], handler));
    let content = "0123456789abcdef".repeat(40_000);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = Client::new(gateway.address);
                let length = content.len();
                let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{LOGIN}Content-Length: {length}\r\n\r\n");
                client.send(head);
                client.send(&content);
                assert_eq!(client.answer(false).status, 200);
                client.send(format!("GET /next HTTP/1.1\r\nHost: a\r\n{LOGIN}Connection: close\r\n\r\n"));
                assert_eq!(client.answer(false).status, 200);
            });
        }
    });
    let requests = recorder.take();
    let (posts, others): (Vec<_>, Vec<_>) = requests.iter().partition(|request| request.method == "POST");
    assert!(posts.iter().all(|request| request.content == content.as_bytes()));
    assert_eq!((posts.len(), others.len()), (8, 8));
    assert_eq!(recorder.violations(), [""; 0]);
}

#[test]
fn upstream_never_gets_complete_body_above_the_limit() {
    let recorder = Recorder::start();
    let limit = PolicyConfig::ContentBytesMax(100_000);
    let gateway = Gateway::guarded(recorder.address, |handler| guarded([limit], handler));
    let piece = format!("8000\r\n{}\r\n", "x".repeat(0x8000));
    let mut client = Client::new(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    (0..4).for_each(|_| client.send(&piece));
    assert_eq!(client.answer(false).status, 413);
    assert!(recorder.take().is_empty());
    let mut client = Client::new(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    (0..3).for_each(|_| client.send(&piece));
    client.send("0\r\n\r\n");
    assert_eq!(client.answer(false).status, 200);
    assert_eq!(recorder.take_one().content.len(), 0x18000);
}

#[test]
fn open_tunnel_holds_its_concurrency_permit() {
    let backend = Backend::start(Behavior::Upgrades);
    let one_at_a_time = PolicyConfig::Concurrency(ConcurrencyConfig::of_route(1));
    let gateway = Gateway::guarded(backend.address, |handler| guarded([one_at_a_time], handler));
    let mut tunnel = gateway.begin_with("GET", "Connection: upgrade\r\nUpgrade: x\r\n");
    assert_eq!(tunnel.first(), "HTTP/1.1 101");
    backend.set_behavior(Behavior::named("one"));
    assert_eq!(gateway.get().status, 503);
    drop(tunnel);
    until(|| gateway.get().status == 200);
}
