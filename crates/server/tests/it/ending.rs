//! End of connections: keep-alive, lingering close and drain.

use std::time::Duration;

use thruway_server::{Config, OwnedRequest, Request, Response, Router};
use thruway_testkit::scene::Scene;

use crate::gate::Gates;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn persistence_is_what_the_version_and_the_options_say() {
    for (request, persists, said) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true, None),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", true, None),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false, Some("close")),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: foo, CLOSE\r\n\r\n", false, Some("close")),
        ("GET / HTTP/1.0\r\n\r\n", false, Some("close")),
        ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true, Some("keep-alive")),
        ("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", false, Some("close")),
    ] {
        let scene = Scene::new(|| "ok");
        let mut client = scene.connect();
        client.send(request);
        let answer = client.received();
        assert_eq!(
            answer.split("Connection: ").nth(1).and_then(|rest| rest.lines().next()),
            said,
            "{request}"
        );
        // The server closes at once if the client has asked to close.
        assert_eq!(client.is_closed(), !persists, "{request}");
    }
}

/// The server once closed the connection at once after `Connection: close`. If the client still sent data,
/// the kernel then sent a reset, and the client lost the response.
#[test]
fn a_client_that_asks_for_the_end_and_goes_on_to_send_reads_its_answer() {
    let scene = Scene::new(|| "ok");
    let last = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for bytes in [last.len(), usize::MAX] {
        let connect = || {
            let mut client = scene.connect();
            // The extra bytes arrive either in a later read or together with the request.
            client.cut_into(bytes).send(format!("{last}extra bytes"));
            assert!(client.received().ends_with("\r\n\r\nok") && client.is_finished());
            assert_eq!((client.unread(), client.is_closed()), (0, false));
            client
        };
        assert!(connect().finish().is_closed());

        let mut client = connect();
        scene.pass(Duration::from_secs(1));
        client.send("more");
        assert!(!client.is_closed());
        scene.pass(Duration::from_millis(1_500));
        assert!(client.is_closed(), "it has had its time");
    }
}

#[test]
fn streamed_content_for_a_client_of_http_1_0_ends_with_the_connection() {
    let scene = Scene::new(|| {
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
fn what_follows_the_last_request_is_not_answered() {
    let scene = Scene::new(|| "ok");
    let mut client = scene.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned() + GET);
    assert_eq!(client.received().matches("HTTP/1.1 200").count(), 1);
    assert!(
        client.is_finished() && !client.is_closed(),
        "it lingers: the client has sent more than was read"
    );
    scene.pass(Duration::from_secs(3));
    assert!(client.is_closed());
}

#[test]
fn a_handler_can_end_the_connection() {
    let scene = Scene::new(
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
fn the_last_of_the_requests_that_are_allowed_says_so() {
    let mut config = Config::default();
    config.limits.requests_per_connection = 2;
    let scene = Scene::with_config(|| "ok", config);
    let mut client = scene.connect();
    client.send(GET);
    assert!(!client.received().contains("close"));
    client.send(GET);
    assert!(client.received().contains("Connection: close"));
    assert!(client.is_finished() && client.finish().is_closed());
}

#[test]
fn a_refused_client_has_time_to_read_why() {
    let scene = Scene::new(|| "ok");
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
fn lingering_is_bounded_in_bytes() {
    let scene = Scene::new(|| "ok");
    let mut client = scene.connect();
    client.send("BROKEN\r\n\r\n");
    for _ in 0..20 {
        client.send(vec![b'x'; 1 << 20]);
    }
    assert!(client.is_closed());
}

#[test]
fn a_drain_closes_idle_connections_soon_but_answers_what_has_arrived() {
    let scene = Scene::new(|| "ok");
    let mut idle = scene.connect();
    let mut late = scene.connect();
    idle.send(GET).received();
    scene.drain();
    idle.run();
    late.send(GET);
    assert!(late.received().contains("Connection: close"), "a request at the last moment is answered");
    assert!(late.is_finished() && late.finish().is_closed());
    assert!(!idle.is_closed());
    scene.pass(Duration::from_millis(400));
    assert!(idle.is_closed());
    assert_eq!(idle.received(), "");
}

#[test]
fn a_drain_waits_for_answers_and_for_a_request_that_has_begun() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = Scene::new(move |request: OwnedRequest| handler.clone().answer(request));
    let mut answered = scene.connect();
    let mut begun = scene.connect();
    answered.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
    begun.send("GET /2 HTTP/1.1\r\nHost");
    scene.drain();
    scene.pass(Duration::from_secs(1));
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
fn a_drain_waits_for_all_requests_that_were_pipelined() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = Scene::new(move |request: OwnedRequest| handler.clone().answer(request));
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
fn a_panic_answers_500_and_the_connection_goes_on() {
    async fn later(_: OwnedRequest) -> &'static str {
        panic!("later")
    }
    let scene = Scene::new(Router::new().get("/now", || -> &str { panic!("now") }).get("/later", later));
    let mut client = scene.connect();
    for path in ["/now", "/later", "/now"] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(client.received().starts_with("HTTP/1.1 500 "), "{path}");
    }
}

#[test]
fn too_many_connections_are_answered_503() {
    let scene = Scene::new(|_: &Request| "ok");
    let mut client = scene.connect_over_limit();
    client.send(GET);
    let answer = client.received();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("Retry-After: "), "{answer}");
    assert!(client.is_closed());
}

/// A connection over the limit once had the full timeout for its head.
#[test]
fn one_connection_too_many_has_less_time_for_its_head() {
    let scene = Scene::new(|_: &Request| "ok");
    let mut client = scene.connect_over_limit();
    client.send("GET / HT");
    scene.pass(Duration::from_millis(2_500));
    assert!(client.received().starts_with("HTTP/1.1 408 "));
}

/// The idle timer once ignored data that the client had not read yet. So it cut such connections off.
#[test]
fn neither_a_drain_nor_the_idle_timer_cuts_off_what_the_client_is_still_taking() {
    let mut config = Config::default();
    config.timeouts.idle = Duration::from_secs(1);
    let expected = "x".repeat(1 << 20);
    let scene = Scene::with_config(|_: &Request| "x".repeat(1 << 20), config);
    for drains in [false, true] {
        let mut client = scene.connect();
        client.take_only(100_000).send(GET);
        if drains {
            scene.drain();
        }
        let mut answer = client.received();
        while answer.len() < 1 << 20 {
            scene.pass(Duration::from_secs(3));
            client.take_more(200_000);
            assert!(!client.is_closed() || answer.len() + 200_000 >= 1 << 20, "after {}", answer.len());
            answer += &client.received();
        }
        assert!(answer.ends_with(&expected));
    }
}
