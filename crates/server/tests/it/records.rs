//! Access records: their fields and their time.

use std::cell::RefCell;
use std::rc::Rc;

use thruway_net::Transport;
use thruway_server::{Config, Content, OwnedRequest, Request, Response, Router};
use thruway_testkit::test_server::TestServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::http2::library::{self, H2Client};

type Records = Rc<RefCell<Vec<(Option<String>, u16, u64, bool)>>>;

fn scene() -> (TestServer, Records) {
    let router = Router::new()
        .get("/small", |_: &Request| "small")
        .get("/large", |_: &Request| "x".repeat(1 << 20))
        .get("/panic", |_: &Request| -> &str { panic!("of the handler") });
    let records = Records::default();
    let taken = records.clone();
    let take = Box::new(move |record: &thruway_server::Record<'_>| {
        let target = record.head.map(|head| head.target.to_string());
        taken.borrow_mut().push((target, record.status.as_u16(), record.content_bytes, record.is_complete));
    });
    (TestServer::with(router, Config::default(), Some(take)), records)
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn each_request_is_recorded_with_its_outcome() {
    let (scene, records) = scene();
    let mut client = scene.connect();
    client.send(get("/small") + &get("/none") + &get("/panic") + "BROKEN\r\n\r\n");
    let expected = [
        (Some("/small".to_owned()), 200, 5, true),
        (Some("/none".to_owned()), 404, 10, true),
        (Some("/panic".to_owned()), 500, 15, true),
    ];
    assert_eq!(records.borrow()[..3], expected);
    let (target, status, _, is_complete) = records.borrow()[3].clone();
    assert_eq!((target, status, is_complete), (None, 400, true));
}

/// A large body was once recorded as complete when it was queued, even if the client then read only a part.
#[test]
fn large_response_is_recorded_after_it_is_written() {
    let (scene, records) = scene();
    let mut client = scene.connect();
    client.set_receive_capacity(500_000).send(get("/large") + &get("/small"));
    assert_eq!(*records.borrow(), []);
    client.add_receive_capacity(1 << 20);
    let expected =
        [(Some("/large".to_owned()), 200, 1 << 20, true), (Some("/small".to_owned()), 200, 5, true)];
    assert_eq!(*records.borrow(), expected);
}

type TunnelRecords = Rc<RefCell<Vec<(u16, u64, Option<u64>, bool)>>>;

/// Returns a server that responds to every request with `tunnel`, and its access records.
fn tunnels(tunnel: fn() -> Response) -> (TestServer, TunnelRecords) {
    let records = TunnelRecords::default();
    let taken = records.clone();
    let take = Box::new(move |record: &thruway_server::Record<'_>| {
        let status = record.status.as_u16();
        taken.borrow_mut().push((status, record.content_bytes, record.received_bytes, record.is_complete));
    });
    (TestServer::with(tunnel, Config::default(), Some(take)), records)
}

fn echo() -> Response {
    Response::upgrade("echo", async |mut tunnel| {
        let mut buffer = [0; 64];
        while let Ok(length @ 1..) = tunnel.read(&mut buffer).await {
            tunnel.write_all(&[b"ab", &buffer[..length]].concat()).await.unwrap();
        }
    })
}

const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";

/// A tunnel was once recorded at its start, without its byte counts.
#[test]
fn tunnel_is_recorded_at_its_end_with_byte_counts() {
    let (scene, records) = tunnels(echo);
    let mut client = scene.connect();
    client.send(UPGRADE.to_owned() + "early").send("late");
    assert!(client.received().ends_with("\r\n\r\nabearlyablate"));
    assert_eq!(*records.borrow(), []);
    client.finish();
    assert_eq!(*records.borrow(), [(101, 13, Some(9), true)]);

    let mut client = scene.connect();
    client.set_receive_capacity(10).send(UPGRADE);
    client.reset();
    assert_eq!(records.borrow()[1..], [(101, 0, None, false)], "the handler never got the tunnel");
}

/// A broken tunnel was once recorded as complete. A tunnel that a drain cut off was once not recorded at all.
#[test]
fn interrupted_tunnel_is_recorded_as_incomplete() {
    let (scene, records) = tunnels(echo);
    let mut client = scene.connect();
    client.send(UPGRADE).send("a").reset();
    assert_eq!(*records.borrow(), [(101, 3, Some(1), false)], "aborted by the client");
    let mut client = scene.connect();
    client.send(UPGRADE.to_owned() + "ab");
    drop(client);
    assert_eq!(records.borrow()[1..], [(101, 4, Some(2), false)], "cut off by the drain");

    let (scene, records) = tunnels(|| {
        Response::upgrade("echo", async |mut tunnel| {
            tunnel.write_all(b"half").await.unwrap();
            tunnel.discard_unsent();
        })
    });
    let mut client = scene.connect();
    client.send(UPGRADE);
    assert_eq!(*records.borrow(), [(101, 4, Some(0), false)], "aborted by its handler");
}

#[test]
fn response_aborted_by_client_is_recorded_as_incomplete() {
    let (scene, records) = scene();
    let mut client = scene.connect();
    client.set_receive_capacity(500_000).send(get("/large"));
    let received = client.received_bytes();
    let head = received.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("the head is out") + 4;
    client.reset();
    let content_bytes = (received.len() - head) as u64;
    assert_eq!(*records.borrow(), [(Some("/large".to_owned()), 200, content_bytes, false)]);
}

/// Requests that were still open at the end of a drain were once not recorded at all.
#[test]
fn requests_cut_off_by_drain_are_recorded_as_cut_off() {
    let records = Rc::<RefCell<Vec<_>>>::default();
    let taken = records.clone();
    let take = Box::new(move |record: &thruway_server::Record<'_>| {
        let target = record.head.unwrap().target.to_string();
        let outcome = (target, record.status.as_u16(), record.content_bytes, record.is_complete);
        taken.borrow_mut().push((outcome, record.is_cut_off));
    });
    let router = Router::new()
        .get("/answer", async |_: OwnedRequest| std::future::pending::<&str>().await)
        .get("/content", streamed)
        .get("/large", |_: &Request| "x".repeat(1 << 20))
        .get("/small", |_: &Request| "small");
    let scene = TestServer::with(router, Config::default(), Some(take));
    let mut clients = ["/answer", "/content", "/large", "/small"].map(|path| {
        let mut client = scene.connect();
        client.set_receive_capacity(1000).send(get(path));
        client
    });
    let mut library = H2Client::connect(&scene);
    let begun = ["/answer", "/content"].map(|path| library.begin(library::get(path), true));
    scene.drain();
    scene.end_drain();
    for client in &mut clients {
        client.drop_connection();
    }
    library.server().drop_connection();
    drop(begun);
    let mut records = records.take();
    let (large, _) = records.remove(3);
    assert!(matches!((large.1, large.2, large.3), (200, 1..1000, false)), "{large:?}");
    let expected = [
        ("/small", 200, 5, true, false),
        ("/answer", 503, 0, false, true),
        ("/content", 200, 4, false, true),
        ("/content", 200, 4, false, true),
        ("/answer", 503, 0, false, true),
    ];
    let expected = expected.map(|(path, status, bytes, is_complete, is_cut_off)| {
        ((path.to_owned(), status, bytes, is_complete), is_cut_off)
    });
    assert_eq!(records, expected);
}

/// A body that never ends.
fn streamed() -> Content {
    Content::written_by(async |mut writer| {
        writer.write("half").await;
        std::future::pending().await
    })
}

/// If the end of the connection marks the end of the body, the server once closed normally. The partial body
/// then looked complete.
#[test]
fn cut_off_body_does_not_look_complete() {
    for (version, is_end_visible) in [("1.0", false), ("1.1", true)] {
        let scene = TestServer::new(streamed);
        let mut client = scene.connect();
        client.send(format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n"));
        assert!(client.received().contains("half"));
        client.drop_connection();
        assert_eq!(client.is_unsent_discarded(), !is_end_visible, "{version}");
    }
    let scene = TestServer::new(|| {
        Content::written_by(async |mut writer| {
            writer.write("x".repeat(1000)).await;
            Ok(())
        })
    });
    let mut client = scene.connect();
    client.set_receive_capacity(500).send("GET / HTTP/1.0\r\n\r\n");
    client.drop_connection();
    assert!(client.is_unsent_discarded(), "the server has the whole body, but sent only a part");
}
