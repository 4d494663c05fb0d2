//! End of connections: keep-alive, lingering close and drain.

use std::time::Duration;

use thruway_server::{Config, OwnedRequest, Request, Response, Router};
use thruway_testkit::test_server::TestServer;

use crate::gate::Gates;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn keep_alive_depends_on_version_and_connection_header() {
    for (request, keeps_alive, connection_header) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true, None),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", true, None),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false, Some("close")),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: foo, CLOSE\r\n\r\n", false, Some("close")),
        ("GET / HTTP/1.0\r\n\r\n", false, Some("close")),
        ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true, Some("keep-alive")),
        ("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", false, Some("close")),
    ] {
        let scene = TestServer::new(|| "ok");
        let mut client = scene.connect();
        client.send(request);
        let answer = client.received();
        assert_eq!(
            answer.split("Connection: ").nth(1).and_then(|rest| rest.lines().next()),
            connection_header,
            "{request}"
        );
        // The server closes at once if the client has asked to close.
        assert_eq!(client.is_closed(), !keeps_alive, "{request}");
    }
}

/// The server once closed the connection at once after `Connection: close`. If the client still sent data,
/// the kernel then sent a reset, and the client lost the response.
#[test]
fn client_that_sends_after_connection_close_still_gets_response() {
    let scene = TestServer::new(|| "ok");
    let last = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for bytes in [last.len(), usize::MAX] {
        let connect = || {
            let mut client = scene.connect();
            // The extra bytes arrive either in a later read or together with the request.
            client.limit_read_size(bytes).send(format!("{last}extra bytes"));
            assert!(client.received().ends_with("\r\n\r\nok") && client.is_finished());
            assert_eq!((client.unread(), client.is_closed()), (0, false));
            client
        };
        assert!(connect().finish().is_closed());

        let mut client = connect();
        scene.advance_time(Duration::from_secs(1));
        client.send("more");
        assert!(!client.is_closed());
        scene.advance_time(Duration::from_millis(1_500));
        assert!(client.is_closed(), "the time for lingering is over");
    }
}

#[test]
fn streamed_body_for_http10_client_ends_with_connection() {
    let scene = TestServer::new(|| {
        thruway_server::Content::written_by(async |mut writer| {
            writer.write("streamed").await;
            Ok(())
        })
    });
    let mut client = scene.connect();
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let answer = client.received();
    assert!(answer.contains("\r\nConnection: close\r\n") && answer.ends_with("\r\n\r\nstreamed"), "{answer}");
    assert!(!answer.contains("chunked") && client.is_finished() && client.finish().is_closed());
}

#[test]
fn request_after_connection_close_is_ignored() {
    let scene = TestServer::new(|| "ok");
    let mut client = scene.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned() + GET);
    assert_eq!(client.received().matches("HTTP/1.1 200").count(), 1);
    assert!(
        client.is_finished() && !client.is_closed(),
        "the server lingers, because it has not read all data"
    );
    scene.advance_time(Duration::from_secs(3));
    assert!(client.is_closed());
}

#[test]
fn handler_can_close_the_connection() {
    let scene = TestServer::new(
        Router::new()
            .get("/", || Response::text("bye").and_close())
            .get("/field", || Response::text("bye").with_field("Connection", "close")),
    );
    for path in ["/", "/field"] {
        let mut client = scene.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.received().matches("Connection: close\r\n").count(), 1);
        assert!(client.is_finished() && client.finish().is_closed());
    }
}

#[test]
fn last_allowed_request_gets_connection_close() {
    let mut config = Config::default();
    config.limits.requests_per_connection = 2;
    let scene = TestServer::with_config(|| "ok", config);
    let mut client = scene.connect();
    client.send(GET);
    assert!(!client.received().contains("close"));
    client.send(GET);
    assert!(client.received().contains("Connection: close"));
    assert!(client.is_finished() && client.finish().is_closed());
}

#[test]
fn rejected_client_has_time_to_read_response() {
    let scene = TestServer::new(|| "ok");
    let mut client = scene.connect();
    client.send("BROKEN\r\n\r\n");
    assert!(client.received().starts_with("HTTP/1.1 400 "));
    assert!(client.is_finished() && !client.is_closed());
    client.send("more rubbish");
    assert!(!client.is_closed());
    client.finish();
    assert!(client.is_closed());
}

#[test]
fn lingering_close_has_byte_limit() {
    let scene = TestServer::new(|| "ok");
    let mut client = scene.connect();
    client.send("BROKEN\r\n\r\n");
    for _ in 0..20 {
        client.send(vec![b'x'; 1 << 20]);
    }
    assert!(client.is_closed());
}

#[test]
fn drain_closes_idle_connections_but_answers_late_requests() {
    let scene = TestServer::new(|| "ok");
    let mut idle = scene.connect();
    let mut late = scene.connect();
    idle.send(GET).received();
    scene.drain();
    idle.run();
    late.send(GET);
    assert!(late.received().contains("Connection: close"), "a late request is answered");
    assert!(late.is_finished() && late.finish().is_closed());
    assert!(!idle.is_closed());
    scene.advance_time(Duration::from_millis(400));
    assert!(idle.is_closed());
    assert_eq!(idle.received(), "");
}

#[test]
fn drain_waits_for_responses_and_started_requests() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |request: OwnedRequest| handler.clone().answer(request));
    let mut answered = scene.connect();
    let mut begun = scene.connect();
    answered.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
    begun.send("GET /2 HTTP/1.1\r\nHost");
    scene.drain();
    scene.advance_time(Duration::from_secs(1));
    assert!(!answered.is_closed() && !begun.is_closed());
    gates.open("/1");
    gates.open("/2");
    assert!(answered.received().contains("Connection: close"));
    begun.send(": a\r\n\r\n");
    assert!(begun.received().contains("Connection: close"));
    assert!(answered.finish().is_closed() && begun.finish().is_closed());
}

/// The first response once announced `Connection: close`, and the server discarded the others.
#[test]
fn drain_waits_for_pipelined_requests() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |request: OwnedRequest| handler.clone().answer(request));
    let mut client = scene.connect();
    client.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    scene.drain();
    client.send("GET /3 HTTP/1.1\r\nHost: a\r\n\r\n");
    gates.open("/1");
    let first = client.received();
    assert!(first.ends_with("\r\n\r\n/1") && !first.contains("Connection: close"), "{first}");
    gates.open("/2");
    gates.open("/3");
    let second = client.received();
    assert!(second.ends_with("\r\n\r\n/2") && second.contains("Connection: close"), "{second}");
}

#[test]
fn handler_panic_gives_500_and_keeps_connection() {
    async fn later(_: OwnedRequest) -> &'static str {
        panic!("later")
    }
    let scene = TestServer::new(Router::new().get("/now", || -> &str { panic!("now") }).get("/later", later));
    let mut client = scene.connect();
    for path in ["/now", "/later", "/now"] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(client.received().starts_with("HTTP/1.1 500 "), "{path}");
    }
}

#[test]
fn connection_over_limit_gets_503() {
    let scene = TestServer::new(|_: &Request| "ok");
    let mut client = scene.connect_over_limit();
    client.send(GET);
    let answer = client.received();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("Retry-After: "), "{answer}");
    assert!(client.is_closed());
}

/// A connection over the limit once had the full timeout for its head.
#[test]
fn connection_over_limit_has_shorter_header_timeout() {
    let scene = TestServer::new(|_: &Request| "ok");
    let mut client = scene.connect_over_limit();
    client.send("GET / HT");
    scene.advance_time(Duration::from_millis(2_500));
    assert!(client.received().starts_with("HTTP/1.1 408 "));
}

/// The idle timer once ignored data that the client had not read yet. So it cut such connections off.
#[test]
fn drain_and_idle_timeout_wait_for_client_that_still_reads() {
    let mut config = Config::default();
    config.timeouts.idle = Duration::from_secs(1);
    let expected = "x".repeat(1 << 20);
    let scene = TestServer::with_config(|_: &Request| "x".repeat(1 << 20), config);
    for drains in [false, true] {
        let mut client = scene.connect();
        client.set_receive_capacity(100_000).send(GET);
        if drains {
            scene.drain();
        }
        let mut answer = client.received();
        while answer.len() < 1 << 20 {
            scene.advance_time(Duration::from_secs(3));
            client.add_receive_capacity(200_000);
            assert!(!client.is_closed() || answer.len() + 200_000 >= 1 << 20, "after {}", answer.len());
            answer += &client.received();
        }
        assert!(answer.ends_with(&expected));
    }
}
